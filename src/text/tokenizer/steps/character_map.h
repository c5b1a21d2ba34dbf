// SPDX-License-Identifier: Apache-2.0
#pragma once
// SentencePiece's map of characters (the normalizer Precompiled): a double-array trie of what is replaced, then the
// replacements. Source: the darts-clone format, and how the reference implementation applies it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/json_node.h"

namespace ashlar::text {

class CharacterMap {
 public:
  /// Reads `precompiled_charsmap` in base64: the bytes of the trie (32 bits), its units (32 bits each), and
  /// replacements in UTF-8, each ended by a zero. Throws Error where that is not what it holds, or more than 16 MiB.
  explicit CharacterMap(const JsonNode& node);

  /// `text` is valid UTF-8, and so is the result. A grapheme cluster of less than six bytes is replaced as a whole by
  /// what its shortest beginning in the map becomes; of others, each character by itself. Stops where the result
  /// exceeds `most` bytes: it is longer than that then. Thread-safe.
  std::string apply(std::string_view text, size_t most) const;

 private:
  // Whether `part` begins with something in the map: what that becomes.
  bool replace(std::string_view part, std::string& out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace ashlar::text
