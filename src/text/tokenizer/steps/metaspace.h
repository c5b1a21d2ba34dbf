// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options that the pre-tokenizer Metaspace and the decoder of that name share.

#include <string>

#include "text/template/json_node.h"

namespace ashlar::text {

struct MetaspaceOptions {
  /// Reads `replacement` (one character), `prepend_scheme` and, of older files, `add_prefix_space`. Throws Error for
  /// values that are none, and for two that contradict each other.
  explicit MetaspaceOptions(const JsonNode& node);

  std::string space;        ///< what stands for a space
  bool prefixed = true;     ///< a word without a space before it gets one
  bool only_first = false;  ///< that of the text alone
};

}  // namespace ashlar::text
