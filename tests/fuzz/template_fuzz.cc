// SPDX-License-Identifier: Apache-2.0
// Any bytes as a template: it renders or ends in an Error, within limits small enough to keep the fuzzer fast.

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "base/error.h"
#include "io/json.h"
#include "text/template/template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto kVariables = ashlar::Json::parse(R"({
    "messages": [{"role": "system", "content": "s é"}, {"role": "user", "content": [{"type": "text", "text": "x"}]},
                 {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1.5}}}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "number"}}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
  ashlar::RenderLimits limits;
  limits.steps = 20'000;
  limits.work_bytes = 8u << 20;
  limits.output_bytes = 1u << 20;
  limits.string_bytes = 1u << 20;
  try {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    ashlar::Template::parse(source, "fuzz").render(kVariables, limits, [] { return std::tm{}; });
  } catch (const ashlar::Error&) {
  }
  return 0;
}
