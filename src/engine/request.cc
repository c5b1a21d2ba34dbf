// SPDX-License-Identifier: Apache-2.0
#include "engine/request.h"

namespace ashlar {

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "?";
}

double RequestStats::mean_length() const {
  int64_t tokens = 0;
  for (size_t n = 0; n < lengths.size(); ++n) tokens += static_cast<int64_t>(n) * lengths[n];
  return verify_steps > 0 ? static_cast<double>(tokens) / verify_steps : 0.0;
}

RequestStats::Decoding RequestStats::decoding() const {
  if (first_token_ns == 0 || finished_ns == 0) return {};
  if (blocks > 0) return {generated_tokens, finished_ns - prompt_done_ns};
  return {generated_tokens - 1, finished_ns - first_token_ns};
}

}  // namespace ashlar
