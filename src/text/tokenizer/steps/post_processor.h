// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `post_processor` of tokenizer.json: the special tokens put around an encoded text.

#include <cstdint>
#include <optional>
#include <vector>

#include "text/template/json_node.h"

namespace ashlar::text {

class PostProcessor {
 public:
  /// Adds nothing.
  PostProcessor() = default;
  /// TemplateProcessing (its `single` template), RobertaProcessing, BertProcessing, ByteLevel (no effect on ids) and
  /// Sequence; another type throws Error.
  explicit PostProcessor(const std::optional<JsonNode>& node);

  /// Puts the special tokens around `ids`.
  void apply(std::vector<int32_t>& ids) const;
  /// Every id that apply may add.
  std::vector<int32_t> ids() const;

 private:
  void add(const JsonNode& node);
  void add_template(const JsonNode& node);
  void surround(const std::vector<int32_t>& before, const std::vector<int32_t>& after, const JsonNode& node);

  std::vector<int32_t> before_, after_;
};

}  // namespace ashlar::text
