// SPDX-License-Identifier: Apache-2.0
#pragma once
// The {"String": ...} or {"Regex": ...} patterns of tokenizer.json and the Replace step made of one.

#include <memory>
#include <string>
#include <string_view>

#include "text/template/json_node.h"
#include "text/template/origins.h"
#include "text/tokenizer/pattern/regex.h"

namespace ashlar::text {

/// Steps of a normalizer, a pre-tokenizer or a decoder; those in use have about ten.
inline constexpr size_t kMaxSteps = 256;

/// What a text of `bytes` may grow to by the steps of a normalizer or a decoder. NFKD makes 33 bytes of the 3 of
/// U+FDFA; chains of Replace grow without an end.
constexpr size_t max_grown_bytes(size_t bytes) { return 16 * bytes + 64 * 1024; }

/// `node` holds {"String": text} or {"Regex": pattern}. An empty pattern throws Error.
Regex compile_pattern(const JsonNode& node);

/// Replace {"pattern": ..., "content": ...}: every match becomes `content`, taken literally.
class Replacement {
 public:
  explicit Replacement(const JsonNode& node);
  /// `text` is valid UTF-8. Stops where the result exceeds `most` bytes: it is longer than that then. Thread-safe.
  std::string apply(std::string_view text, size_t most) const {
    return apply(SourcedText{std::string(text), {}}, most).bytes;
  }
  /// With origins: what stands for a match has the greatest of its bytes, or of those next to an empty one.
  SourcedText apply(const SourcedText& text, size_t most) const;

 private:
  std::shared_ptr<const Regex> regex_;  // shared so that a step is copyable
  std::string content_;
};

}  // namespace ashlar::text
