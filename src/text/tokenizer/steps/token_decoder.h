// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `decoder` of tokenizer.json: from tokens back to text, one token at a time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/json_node.h"
#include "text/tokenizer/pattern/pattern.h"
#include "text/tokenizer/steps/metaspace.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {

class TokenDecoder {
 public:
  /// What a decoding remembers between two tokens. Belongs to one text and one thread.
  struct State {
    Utf8Stream utf8;       // ByteLevel: bytes of a character that is not complete
    std::string byte_run;  // ByteFallback: bytes of the byte tokens that arrived in a row
    size_t left_to_strip = 0;
    bool started = false;
  };

  /// Tokens joined by spaces, as the reference does without a decoder.
  TokenDecoder() = default;
  /// ByteLevel, or a Sequence of Metaspace, Replace..., ByteFallback, Fuse, Strip in this order (each may be absent,
  /// Metaspace and Replace are not there both). Else throws Error.
  explicit TokenDecoder(const std::optional<JsonNode>& node);

  /// What one token stands for, by its spelling in the file. ByteLevel: bytes, not always valid UTF-8. Throws Error
  /// that names the step which lets it grow beyond max_grown_bytes.
  std::string piece_of(std::string_view spelling) const;
  /// The byte that the token of `piece` (from piece_of) adds to the text, -1 if it adds the piece itself.
  int fallback_byte(std::string_view piece) const;

  State start() const;
  /// Appends to `out` the text that is complete once the token of `piece` (from piece_of) has arrived.
  /// `spelling`: the token's in the file.
  void push(std::string_view piece, std::string_view spelling, State& state, std::string& out) const;
  /// Appends what was held back; broken characters become U+FFFD.
  void flush(State& state, std::string& out) const;

 private:
  enum class Kind { kJoinedBySpaces, kBytes, kChain };
  std::string without_spaces(std::string_view spelling) const;
  void add_step(const JsonNode& node);
  void emit(std::string_view text, State& state, std::string& out) const;
  void end_byte_run(State& state, std::string& out) const;

  Kind kind_ = Kind::kJoinedBySpaces;
  std::vector<std::pair<Replacement, std::string>> replacements_;  // each with its place in the file
  std::optional<MetaspaceOptions> metaspace_;                      // before everything else
  bool byte_fallback_ = false;
  bool fuse_ = false;
  std::string strip_content_;
  size_t strip_start_ = 0;
};

}  // namespace ashlar::text
