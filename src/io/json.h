// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON from outside: bounded, and with errors that name the file and the field.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

/// The members of an object, in their order: nlohmann's container under a name of ours, which makes Json a type of
/// ours.
template <class Key, class Value, class Less, class Allocator>
struct JsonMembers : nlohmann::ordered_map<Key, Value, Less, Allocator> {
  using nlohmann::ordered_map<Key, Value, Less, Allocator>::ordered_map;
};

/// As nlohmann::ordered_json, but destroying one allocates nothing.
using Json = nlohmann::basic_json<JsonMembers>;

}  // namespace ashlar

/// Destroys what a Json holds. The library's own function allocates, so that memory that runs out where a document is
/// destroyed, which is where an exception passes, would end the program. This one allocates nothing; it calls itself at
/// each level of the document, of which parse_json allows 64. It is of Json alone: whatever else uses the library keeps
/// the library's, and nothing can name Json without having seen this.
template <>
void ashlar::Json::json_value::destroy(ashlar::Json::value_t type);

namespace ashlar {

/// What becomes of a key that is there twice within one object.
enum class RepeatedKeys {
  kRefuse,
  kLastHolds,  ///< as in Python, for files that people edit and Python reads
};

/// Parses `text`; throws Error("json", ...) naming `name` if it is malformed, nested deeper than 64 levels, or repeats
/// a key that must not be. n log n in the members of an object; looking a member up later is linear.
Json parse_json(std::string_view text, const std::string& name, RepeatedKeys repeated = RepeatedKeys::kRefuse);

/// Text from outside made fit for an error message: control characters replaced, cut after about `most` bytes.
std::string for_message(std::string_view text, size_t most = 100);

/// parse_json of a file of at most 64 MiB.
Json read_json_file(const std::filesystem::path& path, RepeatedKeys repeated = RepeatedKeys::kRefuse);

/// Typed access to one JSON object of a configuration. Every error names the file and the field, what was found and
/// expected.
class JsonFields {
 public:
  /// `object` must outlive this. Throws if it is not an object.
  JsonFields(const Json& object, std::string file, std::string tag);

  bool has(const std::string& key) const;  ///< present and not null
  int64_t integer(const std::string& key, int64_t low, int64_t high) const;
  int64_t integer(const std::string& key, int64_t low, int64_t high, int64_t fallback) const;
  /// Finite and within [low, high].
  double number(const std::string& key, double low, double high) const;
  double number(const std::string& key, double low, double high, double fallback) const;
  bool boolean(const std::string& key, bool fallback) const;
  std::string string(const std::string& key) const;
  std::string string(const std::string& key, const std::string& fallback) const;
  std::vector<int32_t> integers(const std::string& key, int64_t low, int64_t high) const;
  std::vector<std::string> strings(const std::string& key) const;
  /// The object under `key`; it must be present.
  JsonFields object(const std::string& key) const;
  const Json& raw(const std::string& key) const;
  const std::string& file() const { return file_; }

  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;

 private:
  const Json& at(const std::string& key, const char* expected) const;
  const Json& object_;
  std::string file_;
  std::string tag_;
};

}  // namespace ashlar
