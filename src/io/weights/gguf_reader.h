// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads a GGUF file from front to back: nothing after its end, and errors that say where it stopped.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ashlar {

class GgufReader {
 public:
  GgufReader(const std::filesystem::path& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  /// What the following is about, for errors: "key general.name"; empty: the file.
  void of(std::string what) { what_ = std::move(what); }
  [[noreturn]] void fail(const std::string& message) const;

  /// The next bytes. `what` names them where they are not there.
  std::span<const std::byte> take(uint64_t count, const char* what);
  template <class T>
  T number(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::string_view text(uint64_t length, const char* what) {
    return {reinterpret_cast<const char*>(take(length, what).data()), length};
  }
  /// A text after its length, which is at most `most`.
  std::string_view string(const char* what, uint64_t most);

  /// Throws where `count` is more than `most`, or than there can be in what follows if each takes `least` bytes.
  void check_count(const char* what, uint64_t count, uint64_t most, uint64_t least) const;

  const std::byte* here() const { return bytes_.data() + at_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  std::string what_;
};

}  // namespace ashlar
