// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `normalizer` of tokenizer.json: what is done to text before it is split.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/json_node.h"
#include "text/template/origins.h"

namespace ashlar::text {

class Normalizer {
 public:
  /// Does nothing.
  Normalizer() = default;
  /// NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Precompiled, Replace and Sequence; another type throws Error.
  explicit Normalizer(const std::optional<JsonNode>& node);

  bool empty() const { return steps_.empty(); }
  /// `text` is valid UTF-8, and so is the result. Normal forms are those of the reference, which knows Unicode 9:
  /// younger characters stay as they are. Throws Error that names the step which lets the text grow beyond
  /// max_grown_bytes. Thread-safe.
  std::string normalize(std::string_view text) const { return normalize(SourcedText{std::string(text), {}}).bytes; }
  /// With origins: what is made of characters of several has the greatest of theirs.
  SourcedText normalize(SourcedText text) const;

 private:
  struct Step {
    std::function<SourcedText(SourcedText, size_t most)> apply;  // may stop where it exceeds `most` bytes
    std::string place;
  };
  void add(const JsonNode& node);
  std::vector<Step> steps_;
};

}  // namespace ashlar::text
