// SPDX-License-Identifier: Apache-2.0
#pragma once
// One answer of a block-diffusion model by way of the engine, and the pass that unmasked each of its tokens.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "decode/registry.h"
#include "engine/engine.h"
#include "engine/event_queue.h"

namespace ashlar::testing {

struct Decoded {
  std::vector<int32_t> tokens;
  std::vector<int32_t> passes;  // by token: the pass over its block that unmasked it
  FinishReason reason = FinishReason::kLength;
};

struct Task {
  std::vector<int32_t> prompt;
  int32_t max_tokens = 0;
  std::vector<int32_t> stops;
  double threshold = 0.5;
  bool verifies = false;  // s2d2: every run of two masked positions or more is verified
};

inline std::unique_ptr<Engine> make_engine(Ops& ops, Model& model, int32_t block, AlgorithmSpec algorithm) {
  DecoderSpec spec;
  spec.block.algorithm = std::move(algorithm);
  spec.block.block_size = block;
  EngineOptions options;
  options.max_sequences = 4;
  options.prefill_chunk = 20;
  return std::make_unique<Engine>(ops, make_decoder(model, spec), options);
}

inline Decoded decode(Engine& engine, const Task& task) {
  const auto queue = std::make_shared<EventQueue>();
  Request request;
  request.prompt = task.prompt;
  request.max_tokens = task.max_tokens;
  request.stop_ids = task.stops;
  request.sink = queue;
  const Result<RequestId> id = engine.submit(std::move(request));
  EXPECT_TRUE(id.ok());
  Decoded decoded;
  for (;;) {
    Event event = queue->next();
    if (auto* end = std::get_if<EndEvent>(&event)) {
      decoded.reason = end->reason;
      EXPECT_EQ(end->error, "");
      const RequestStats& stats = end->stats;
      EXPECT_LE(stats.admitted_ns, stats.prompt_done_ns);
      EXPECT_LT(stats.prompt_done_ns, stats.first_token_ns);  // a block takes passes of its own
      EXPECT_EQ(stats.decoding().tokens, static_cast<int64_t>(decoded.tokens.size()));
      EXPECT_EQ(stats.decoding().ns, stats.finished_ns - stats.prompt_done_ns);
      break;
    }
    const auto& chunk = std::get<TokenChunk>(event);
    decoded.tokens.insert(decoded.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    decoded.passes.insert(decoded.passes.end(), chunk.unmask_pass.begin(), chunk.unmask_pass.end());
  }
  engine.wait_idle();
  EXPECT_EQ(engine.counters().pages_held, 0);
  return decoded;
}

}  // namespace ashlar::testing
