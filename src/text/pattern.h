#pragma once
// The {"String": ...} or {"Regex": ...} patterns of tokenizer.json and the Replace step made of one.

#include <memory>
#include <string>
#include <string_view>

#include "text/json_node.h"
#include "text/origins.h"
#include "text/regex.h"

namespace ashlar::text {

/// `node` holds {"String": text} or {"Regex": pattern}. An empty pattern throws Error.
Regex compile_pattern(const JsonNode& node);

/// Replace {"pattern": ..., "content": ...}: every match becomes `content`, taken literally.
class Replacement {
 public:
  explicit Replacement(const JsonNode& node);
  /// `text` is valid UTF-8. Thread-safe.
  std::string apply(std::string_view text) const { return apply(SourcedText{std::string(text), {}}).bytes; }
  /// With origins: what stands for a match has the greatest of its bytes, or of those beside an empty one.
  SourcedText apply(const SourcedText& text) const;

 private:
  std::shared_ptr<const Regex> regex_;  // shared so that a step is copyable
  std::string content_;
};

}  // namespace ashlar::text
