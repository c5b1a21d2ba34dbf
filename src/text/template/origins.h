// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where text came from, byte by byte: what the template of a model wrote, or what a caller brought. Text of a caller
// must not become special tokens, wherever a template puts it and whatever it makes of it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

/// The greater, the fewer tokens a spelling may become.
enum class Origin : std::uint8_t {
  kTemplate,  ///< the model's own: spellings of special tokens become those
  kData,  ///< a caller's: special tokens stay text; tags such as <think> become tokens where the vocabulary has them
  kSaid,  ///< of users and tools: tags stay text, too
};

/// The origins of a text's bytes. The text's size is its owner's to know.
class Origins {
 public:
  struct Run {
    std::size_t end;  ///< one past its last byte
    Origin origin;
    bool operator==(const Run&) const = default;
  };

  /// All of a text, whatever its size.
  Origins(Origin all = Origin::kTemplate) : all_(all) {}  // NOLINT(google-explicit-constructor)

  /// The bytes are of more than one origin.
  bool mixed() const { return !runs_.empty(); }
  /// Ascending, neighbours of different origins, the last one ends with the text; empty unless mixed.
  const std::vector<Run>& runs() const { return runs_; }
  /// The greatest of all bytes.
  Origin greatest() const { return all_; }
  /// The greatest of the bytes [from, to), which are not none.
  Origin greatest(std::size_t from, std::size_t to) const;
  /// Those of the bytes [from, to).
  Origins slice(std::size_t from, std::size_t to) const;
  /// Those of a text of `size` bytes, whose own are these, and `more` of `more_size` bytes after it.
  void append(std::size_t size, const Origins& more, std::size_t more_size);

 private:
  void add(std::size_t end, Origin origin);
  std::size_t run_at(std::size_t byte) const;

  Origin all_;  // the greatest where they are mixed
  std::vector<Run> runs_;
};

/// A text that knows where it came from.
struct SourcedText {
  std::string bytes;
  Origins origins;

  void append(std::string_view more, const Origins& from);
  void append(const SourcedText& more) { append(more.bytes, more.origins); }
  /// `part` points into `whole.bytes`, or is empty.
  void append_part(const SourcedText& whole, std::string_view part) { append(part, whole.origins_of(part)); }
  /// The origins of a part of these bytes.
  Origins origins_of(std::string_view part) const;
};

}  // namespace ashlar
