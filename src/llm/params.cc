// SPDX-License-Identifier: Apache-2.0
#include "llm/params.h"

#include <limits>

#include "llm/checks.h"

namespace ashlar {
namespace {

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();

SamplingScheme scheme_of(const std::string& name) {
  if (name == "coupled") return SamplingScheme::kCoupled;
  if (name == "rejection") return SamplingScheme::kRejection;
  refuse("scheme", name, "coupled or rejection");
}

SamplingParams sampling_of(const LlmParams& in) {
  SamplingParams out;
  out.temperature = in.temperature;
  out.top_k = in_range(in.top_k, "top_k", 0, kMost);
  out.top_p = in.top_p;
  out.min_p = in.min_p;
  out.repetition_penalty = in.repetition_penalty;
  out.presence_penalty = in.presence_penalty;
  out.frequency_penalty = in.frequency_penalty;
  out.logit_bias = in.logit_bias;
  out.seed = in.seed;
  out.scheme = scheme_of(in.scheme);
  if (in.logprobs) out.top_logprobs = in_range(*in.logprobs, "logprobs", 0, kMaxTopLogprobs);
  return out;
}

}  // namespace

RequestForm request_form(const LlmParams& params, const Session& session, Constraints& constraints) {
  RequestForm out;
  out.request.sampling = sampling_of(params);
  out.request.max_tokens = in_range(params.max_tokens, "max_tokens", 0, kMost);
  out.request.width = in_range(params.width, "width", 0, kMost);
  out.request.choice = {params.algorithm, params.algorithm_options};
  out.request.stop_ids = params.stop_ids;
  std::vector<int32_t> ends = params.stop_ids;  // a grammar allows the model's own ends wherever it is complete
  ends.insert(ends.end(), session.stop_ids().begin(), session.stop_ids().end());
  if (!params.ignore_eos) out.request.stop_ids = ends;
  out.constraint = constraints.maker(params, std::move(ends));
  out.stop = params.stop;
  out.skip_special_tokens = params.skip_special_tokens;
  return out;
}

}  // namespace ashlar
