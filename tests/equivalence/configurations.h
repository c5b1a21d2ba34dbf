// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configurations by which a request may be served, and an engine for each.

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "decode/registry.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "equivalence/late_decoder.h"

namespace ashlar::testing {

/// The long tier, where every combination is run.
inline bool is_long() { return std::getenv("ASHLAR_LONG_TESTS") != nullptr; }

struct Configuration {
  std::string name;
  DecoderSpec decoder;
  int32_t depth = 1;
  int32_t prefill_chunk = 4096;
  bool late_plans = false;    ///< steps are planned without the results of the one before
  bool tight_memory = false;  ///< pages for a few sequences only, so that a batch preempts
};

/// Ways to sample that the suites share.
inline SamplingParams warm_sampling() {
  SamplingParams params;
  params.temperature = 0.7;
  params.top_p = 0.9;
  params.seed = 7;
  return params;
}
inline SamplingParams hot_sampling() {
  SamplingParams params;
  params.temperature = 1.0;
  params.top_p = 0.95;
  params.seed = 1234567890123ULL;
  return params;
}
inline SamplingParams penalised_sampling() {
  SamplingParams params = hot_sampling();
  params.repetition_penalty = 1.1;
  params.presence_penalty = 0.3;
  params.frequency_penalty = 0.2;
  params.logit_bias = {{334, 1.5F}, {2, -3.0F}};
  return params;
}

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<int32_t> passes;  ///< of a block: the one that unmasked each token
  std::vector<float> logprobs;
  EndEvent end;
};

inline Answer drain(EventQueue& queue) {
  Answer answer;
  for (;;) {
    Event event = queue.next();
    if (auto* end = std::get_if<EndEvent>(&event)) {
      answer.end = std::move(*end);
      return answer;
    }
    auto& chunk = std::get<TokenChunk>(event);
    answer.tokens.insert(answer.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    answer.passes.insert(answer.passes.end(), chunk.unmask_pass.begin(), chunk.unmask_pass.end());
    for (const TokenLogprobs& logprob : chunk.logprobs) answer.logprobs.push_back(logprob.token);
  }
}

/// Submits all requests before reading any answer, so that they share steps.
inline std::vector<Answer> run_together(Engine& engine, std::vector<Request> requests) {
  std::vector<std::shared_ptr<EventQueue>> queues;
  for (Request& request : requests) {
    queues.push_back(std::make_shared<EventQueue>());
    request.sink = queues.back();
    const Result<RequestId> id = engine.submit(std::move(request));
    if (!id.ok()) throw std::runtime_error(id.error());
  }
  std::vector<Answer> answers;
  for (const auto& queue : queues) answers.push_back(drain(*queue));
  engine.wait_idle();
  return answers;
}

/// The tokens of a request and how many each step gave, the prompt's first.
inline std::pair<std::vector<int32_t>, std::vector<int32_t>> steps_of(Engine& engine, Request request) {
  const auto queue = std::make_shared<EventQueue>();
  request.sink = queue;
  const Result<RequestId> id = engine.submit(std::move(request));
  if (!id.ok()) throw std::runtime_error(id.error());
  std::vector<int32_t> tokens, steps;
  for (Event event = queue->next(); std::holds_alternative<TokenChunk>(event); event = queue->next()) {
    const auto& chunk = std::get<TokenChunk>(event);
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    steps.push_back(static_cast<int32_t>(chunk.tokens.size()));
  }
  engine.wait_idle();
  return {tokens, steps};
}

inline std::unique_ptr<Engine> open_engine(Ops& ops, Model& model, const Configuration& configuration,
                                           int32_t longest) {
  EngineOptions options;
  options.max_sequences = 8;
  options.depth = configuration.depth;
  options.prefill_chunk = configuration.prefill_chunk;
  options.max_step_rows = 1024;
  options.kv_pages = configuration.tight_memory ? 2 * longest / kPageTokens : 8 * (longest / kPageTokens + 2);
  std::unique_ptr<Decoder> decoder = make_decoder(model, configuration.decoder);
  if (configuration.late_plans) decoder = std::make_unique<LateDecoder>(std::move(decoder));
  return std::make_unique<Engine>(ops, std::move(decoder), options);
}

/// What noise says sampled cold repeats itself, so that n-gram drafts are partly right.
inline SamplingParams cool_sampling() {
  SamplingParams params;
  params.temperature = 0.25;
  params.seed = 3;
  return params;
}

/// With n-gram drafts wherever there are any.
inline Configuration configuration(const std::string& method, int32_t width, int32_t depth, int32_t chunk, bool tight) {
  Configuration made;
  made.decoder.method = method;
  made.decoder.ngram = NgramUse::kAlways;
  made.decoder.ngram_width = width;
  made.depth = depth;
  made.prefill_chunk = chunk;
  made.tight_memory = tight;
  made.late_plans = depth == 2 && chunk == 13;
  return made;
}

}  // namespace ashlar::testing
