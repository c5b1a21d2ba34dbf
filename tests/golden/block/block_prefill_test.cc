// SPDX-License-Identifier: Apache-2.0
// Prompts of the bundled block-diffusion model: the passes that they take, and what is kept of them and of blocks.

#include <gtest/gtest.h>

#include <random>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

Request random_request(int32_t length, int32_t max_tokens, unsigned seed) {
  Request request;
  std::mt19937 random(seed);
  for (int32_t i = 0; i < length; ++i) request.prompt.push_back(static_cast<int32_t>(random() % 8000));
  request.max_tokens = max_tokens;
  request.sampling.top_logprobs = 0;
  return request;
}

std::unique_ptr<Model> load(Ops& ops) { return Model::load(ops, models_folder() / "pebble-11m-sdar", 1100); }

// A prompt is read a chunk a pass, however many blocks it has.
TEST(BlockPrefill, TakesOnePassAChunk) {
  constexpr int32_t kPrompt = 1000;
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  const auto model = load(*ops);
  for (const int32_t chunk : {96, 256, 512}) {
    EngineOptions options;
    options.prefill_chunk = chunk;
    options.prompt_step_ns = 0;
    options.depth = 1;
    Engine engine(*ops, make_decoder(*model, {}), options);
    const Answer answer = run_together(engine, {random_request(kPrompt, 1, 9)})[0];
    const auto steps = static_cast<int64_t>(engine.counters().steps);
    // The last one shares its step with the first pass over the answer.
    EXPECT_EQ(steps - (answer.end.stats.verify_steps - 1), (kPrompt + chunk - 1) / chunk) << chunk;
  }
}

// Blocks that were denoised and committed are in the cache as if they had been a prompt: who goes on from them gets the
// tokens, passes and log-probabilities, to the bit, of who reads the same text anew.
TEST(BlockPrefill, CommittedBlocksAreKeptAsAPromptWouldBe) {
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  const auto model = load(*ops);
  for (const int32_t block : {8, 16}) {
    DecoderSpec spec;
    spec.block.block_size = block;
    for (const int32_t length : {5, 61}) {
      SCOPED_TRACE("blocks of " + std::to_string(block) + ", prompt of " + std::to_string(length));
      const Request first = random_request(length, 150, static_cast<unsigned>(length));
      Engine engine(*ops, make_decoder(*model, spec), {});
      Request next = first;
      next.max_tokens = 40;
      const Answer committed = run_together(engine, {first})[0];
      next.prompt.insert(next.prompt.end(), committed.tokens.begin(), committed.tokens.end());
      const Answer continued = run_together(engine, {next})[0];
      EXPECT_GT(continued.end.stats.cached_tokens, length + 64);  // pages that hold nothing of the prompt
      Engine fresh(*ops, make_decoder(*model, spec), {});
      const Answer anew = run_together(fresh, {next})[0];
      EXPECT_EQ(anew.end.stats.cached_tokens, 0);
      EXPECT_EQ(continued.tokens, anew.tokens);
      EXPECT_EQ(continued.passes, anew.passes);
      EXPECT_EQ(continued.logprobs, anew.logprobs);
      EXPECT_EQ(anew.logprobs.size(), anew.tokens.size());
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
