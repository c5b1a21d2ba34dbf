// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a chat template teaches its model to write function calls.

#include <cstdint>
#include <string_view>

namespace ashlar {

enum class CallForm : uint8_t {
  kHermes,  ///< <tool_call>{"name": ..., "arguments": {...}}</tool_call>, anywhere in the answer
  kBare,    ///< {"name": ..., "parameters": {...}}, where the answer begins
};

/// May precede a bare call.
inline constexpr std::string_view kPythonTag = "<|python_tag|>";

}  // namespace ashlar
