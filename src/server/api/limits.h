// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the parsers of requests need to know of the server: limits and defaults. One object for a server's life.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ashlar::server {

/// Sampling of a request that does not say; a model's generation_config.json overrides them.
struct SamplingDefaults {
  double temperature = 1.0;
  double top_p = 1.0;
  int32_t top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
};

/// Largest numbers of things in one request, and who hears of fields that do nothing.
struct ApiLimits {
  SamplingDefaults defaults;
  int32_t vocab = INT32_MAX;  ///< token ids are below this
  int32_t n = 16;
  int32_t prompts = 256;  ///< of one completions or generate request
  int32_t prompt_tokens = 1 << 22;
  int32_t messages = 4096;
  int32_t parts = 4096;  ///< content parts of one message
  int32_t stops = 16;
  int32_t stop_bytes = 256;
  int32_t stop_ids = 64;
  int32_t logit_bias = 1024;
  int32_t tools = 128;
  int32_t top_logprobs = 20;
  int32_t schema_bytes = 64 << 10;  ///< of one JSON schema, regular expression or grammar
  int32_t choices = 1024;
  int32_t name_bytes = 128;  ///< of a function, a salt, a request id
  /// Called with the path of a field that was accepted and has no effect; any thread.
  std::function<void(const std::string&)> on_ignored;
  std::vector<std::string> template_kwargs = {"enable_thinking", "thinking",          "reasoning_effort",
                                              "thinking_budget", "preserve_thinking", "clear_thinking",
                                              "date_string"};
};

}  // namespace ashlar::server
