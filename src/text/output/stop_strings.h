// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stop strings in text that arrives in parts.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

/// Looks for several strings at once (Aho and Corasick 1975). The match that is complete first wins, of those that are
/// complete at the same byte the longest; the text is cut where it begins. So the result does not depend on how the
/// text was cut into parts. Copy a prepared object to use the same strings for another text.
class StopStrings {
 public:
  /// Empty strings never match. Broken UTF-8 in a string is replaced as in text, by U+FFFD.
  explicit StopStrings(const std::vector<std::string>& strings);

  /// Takes the next part of the text; returns what can no longer be part of a stop string, ending at a character. Once
  /// stopped, text is dropped and the result empty. `hidden`: text that stop strings are looked for in and that no
  /// result has.
  std::string feed(std::string_view text, bool hidden = false);
  /// The end of the text: returns what was held back (nothing when stopped), and stands at the start of a new text.
  std::string flush();

  bool stopped() const { return hit_.has_value(); }
  /// Index into the strings of the one that was found.
  std::optional<size_t> hit() const { return hit_; }

 private:
  struct Node {
    std::vector<std::pair<unsigned char, int32_t>> children;
    int32_t failure = 0;  // the node of the longest proper suffix that is in the trie
    int32_t depth = 0;    // bytes from the root
    int32_t match = -1;   // string that ends here, the longest such
  };
  int32_t child(int32_t node, unsigned char byte) const;
  void add(const std::string& text, int32_t index);
  void link();

  std::vector<Node> nodes_;
  std::vector<size_t> lengths_;
  int32_t at_ = 0;    // node: the longest suffix of the text that begins a stop string
  std::string held_;  // that suffix
  std::string kept_;  // of each byte of it whether it is text to be returned, else hidden: 1 or 0
  std::optional<size_t> hit_;
};

}  // namespace ashlar
