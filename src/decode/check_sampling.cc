// SPDX-License-Identifier: Apache-2.0
#include "decode/check_sampling.h"

#include <cmath>
#include <cstdio>

#include "base/philox.h"

namespace ashlar {
namespace {

std::string range(const char* field, double value, const char* allowed) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);  // enough digits to distinguish floats
  return std::string(field) + " is " + text + "; expected " + allowed;
}

}  // namespace

std::string check_sampling(const SamplingParams& params, int32_t vocab) {
  const auto within = [](double value, double low, double high) { return value >= low && value <= high; };  // NaN fails
  if (!within(params.temperature, 0.0, 100.0)) return range("temperature", params.temperature, "0 to 100");
  if (params.top_k < 0) return range("top_k", params.top_k, "0 (off) or more");
  if (!(within(params.top_p, 0.0, 1.0) && params.top_p > 0.0))
    return range("top_p", params.top_p, "above 0, at most 1");
  if (!within(params.min_p, 0.0, 1.0)) return range("min_p", params.min_p, "0 to 1");
  if (!(within(params.repetition_penalty, 0.0, 100.0) && params.repetition_penalty > 0.0)) {
    return range("repetition_penalty", params.repetition_penalty, "above 0, at most 100");
  }
  if (!within(params.presence_penalty, -100.0, 100.0))
    return range("presence_penalty", params.presence_penalty, "-100 to 100");
  if (!within(params.frequency_penalty, -100.0, 100.0)) {
    return range("frequency_penalty", params.frequency_penalty, "-100 to 100");
  }
  if (!within(params.top_logprobs, -1, kMaxTopLogprobs)) {
    return range("top_logprobs", params.top_logprobs, "0 to 20, or -1 for none");
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocab) {
      return "logit_bias names token " + std::to_string(id) + "; the vocabulary has " + std::to_string(vocab);
    }
    if (!within(bias, -1000.0, 1000.0)) return range("logit_bias", bias, "-1000 to 1000");
  }
  return {};
}

uint64_t choice_seed(uint64_t seed, int32_t index) {
  if (index == 0) return seed;
  const PhiloxBlock block = philox4x32({static_cast<uint32_t>(index), 0, 0, 0xC401CEu}, static_cast<uint32_t>(seed),
                                       static_cast<uint32_t>(seed >> 32));
  return (uint64_t{block[0]} << 32) | block[1];
}

}  // namespace ashlar
