// SPDX-License-Identifier: Apache-2.0
// Block decoding of every family against decoding written out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "base/error.h"
#include "device/device.h"
#include "golden/block/decoding_by_hand.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

class BlockDecoding : public ::testing::TestWithParam<std::string> {
 protected:
  BlockDecoding()
      : checkpoint_(data_folder() / "blocks" / GetParam()),
        ops_(make_device("ref", {})),
        model_(Model::load(*ops_, checkpoint_.folder(), kLongest)) {}

  // The model's own block, and one of several parts where blocks are filled part by part.
  std::vector<int32_t> blocks() const {
    const BlockDiffusion& diffusion = *model_->config().diffusion;
    if (diffusion.block_size == 0) return {32};
    return {diffusion.block_size, 2 * diffusion.block_size};
  }

  SeededCheckpoint checkpoint_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
};

TEST_P(BlockDecoding, AgreesWithDecodingByHand) {
  const int32_t vocab = model_->config().vocab;
  unsigned seed = 1;
  int64_t decided = 0, passes = 0;
  for (const int32_t block : blocks()) {
    for (const double threshold : {0.9, 0.02}) {
      for (const int32_t length : {1, block - 1, block, block + 1, 2 * block, 2 * block + 1}) {
        SCOPED_TRACE("block of " + std::to_string(block) + ", prompt of " + std::to_string(length) + ", threshold " +
                     std::to_string(threshold));
        Task task{random_prompt(length, vocab, seed++), 37, {}, threshold};
        if (length > 2) task.prompt[length / 2] = model_->config().diffusion->mask_id;  // is text, not a masked
        ByHand by_hand(*model_, block);
        const Decoded expected = by_hand.decode(task);
        const auto engine = make_engine(*ops_, *model_, block, {"", {{"threshold", threshold}}});
        Decoded found = decode(*engine, task);
        EXPECT_EQ(found.tokens, expected.tokens);
        EXPECT_EQ(found.passes, expected.passes);
        EXPECT_EQ(std::count(found.tokens.begin(), found.tokens.end(), model_->config().diffusion->mask_id), 0);
        // A stop token ends the answer as soon as everything before it is unmasked, with the same text as without
        // hurry.
        task.stops = {expected.tokens[20]};
        const Decoded stopped = by_hand.decode(task);
        found = decode(*engine, task);
        EXPECT_EQ(found.tokens, stopped.tokens);
        EXPECT_EQ(found.passes, stopped.passes);
        EXPECT_EQ(found.reason, FinishReason::kStop);
        decided += static_cast<int64_t>(expected.tokens.size());
        for (size_t i = 0; i < expected.passes.size(); ++i) {
          passes += i == 0 || expected.passes[i] > expected.passes[i - 1];
        }
      }
    }
  }
  EXPECT_LT(passes, decided);  // some passes unmasked several tokens
}

// A rule that asks for all positions in every pass, and whose corrections are switched off.
TEST_P(BlockDecoding, EditsThatAreNeverMadeChangeNothing) {
  unsigned seed = 61;
  for (const int32_t block : blocks()) {
    for (const int32_t length : {1, block - 1, block, 2 * block + 1}) {
      SCOPED_TRACE("block of " + std::to_string(block) + ", prompt of " + std::to_string(length));
      const Task task{random_prompt(length, model_->config().vocab, seed++), 37, {}, 0.02};
      const auto engine = make_engine(*ops_, *model_, block,
                                      {"joint_threshold", {{"threshold", task.threshold}, {"edit_threshold", 1}}});
      const Decoded expected = ByHand(*model_, block).decode(task);
      const Decoded found = decode(*engine, task);
      EXPECT_EQ(found.tokens, expected.tokens);
      EXPECT_EQ(found.passes, expected.passes);
    }
  }
}

// With a penalty that high no token follows itself, at a block's border neither.
TEST_P(BlockDecoding, PenaltyAgainstStutterActsAtBorders) {
  constexpr int32_t kBlock = 8;
  for (unsigned seed = 91; seed < 111; ++seed) {
    const Task task{random_prompt(kBlock, model_->config().vocab, seed), 5 * kBlock, {}, 1.0};
    const auto engine = make_engine(
        *ops_, *model_, kBlock,
        {"joint_threshold", {{"threshold", task.threshold}, {"edit_threshold", 1}, {"penalty_lambda", 100}}});
    const std::vector<int32_t> tokens = decode(*engine, task).tokens;
    for (int32_t border = kBlock; border < 5 * kBlock; border += kBlock) {
      EXPECT_NE(tokens[border - 1], tokens[border]) << seed;
    }
  }
}

// Verified in one pass as one token at a time would have gone, each computed by itself.
TEST_P(BlockDecoding, SelfVerificationAgreesWithOneTokenAtATime) {
  const int32_t own = model_->config().diffusion->block_size;
  if (own == 0) {
    try {
      make_engine(*ops_, *model_, own, {"s2d2", {}});
      FAIL() << "a model of whole sequences has no blocks of one position";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("s2d2 needs a model that attends block by block"));
    }
    return;
  }
  unsigned seed = 31;
  int64_t decided = 0, verified = 0;
  for (const double threshold : {0.9, 0.02}) {
    for (const int32_t length : {1, own - 1, own, own + 1, 2 * own + 1}) {
      SCOPED_TRACE("prompt of " + std::to_string(length) + ", threshold " + std::to_string(threshold));
      const Task task{random_prompt(length, model_->config().vocab, seed++), 37, {}, threshold, true};
      const Decoded expected = ByHand(*model_, own).decode(task);
      const auto engine = make_engine(*ops_, *model_, own, {"s2d2", {{"threshold", threshold}}});
      const Decoded found = decode(*engine, task);
      EXPECT_EQ(found.tokens, expected.tokens);
      EXPECT_EQ(found.passes, expected.passes);
      decided += static_cast<int64_t>(found.tokens.size());
      for (size_t i = 1; i < found.passes.size(); ++i) verified += found.passes[i] == found.passes[i - 1];
    }
  }
  EXPECT_GT(verified, 0);  // some drafts agreed
  EXPECT_LT(verified, decided - 10);
}

// Blocks of a grid are whole to the end, so the context is rounded down to them; where a pass computes the whole
// sequence the last block may be shorter.
TEST_P(BlockDecoding, FillsTheContextToItsEnd) {
  constexpr int32_t kContext = 100;
  const int32_t own = model_->config().diffusion->block_size;
  const auto model = Model::load(*ops_, checkpoint_.folder(), kContext);
  const auto engine = make_engine(*ops_, *model, own, {"", {{"threshold", 0.02}}});
  const int32_t longest = own > 0 ? kContext / own * own : kContext;
  ASSERT_EQ(engine->max_positions(), longest);
  for (const int32_t length : {21, longest - 5, longest - 1}) {
    SCOPED_TRACE("prompt of " + std::to_string(length));
    Task task{random_prompt(length, model->config().vocab, 47), longest - length, {}, 0.02};
    const Decoded expected = ByHand(*model, own > 0 ? own : 32).decode(task);
    task.max_tokens = 2 * kContext;
    const Decoded found = decode(*engine, task);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.passes, expected.passes);
    EXPECT_EQ(found.reason, FinishReason::kLength);
  }
}

TEST_P(BlockDecoding, AContextWithoutRoomForABlockIsRefused) {
  const int32_t own = model_->config().diffusion->block_size;
  const int32_t context = own > 0 ? own - 1 : 7;
  const auto model = Model::load(*ops_, checkpoint_.folder(), context);
  if (own == 0) {  // its blocks end where the sequence does
    const auto engine = make_engine(*ops_, *model, own, {});
    ASSERT_EQ(engine->max_positions(), context);
    EXPECT_EQ(decode(*engine, {random_prompt(3, model->config().vocab, 5), 100, {}}).tokens.size(), 4U);
    return;
  }
  try {
    make_engine(*ops_, *model, own, {});
    FAIL() << "no block fits";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the context is " + std::to_string(context) +
                                                   " tokens, less than one block of " + std::to_string(own)));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BlockDecoding,
                         ::testing::Values("sdar", "sdar_moe", "llada2", "fast_dllm_v2", "llada", "dream"));

// K and V of a block cannot depend on anything after it, and depend on all of it.
TEST(BlockMask, RowsSeeTheirBlockAndNothingAfter) {
  const SeededCheckpoint checkpoint(data_folder() / "blocks" / "llada2");
  const auto ops = make_device("cpu", {});
  const auto model = Model::load(*ops, checkpoint.folder(), kLongest);
  const int32_t block = model->config().diffusion->block_size;
  KvLayout layout;
  model->register_state(layout);
  const std::vector<int32_t> pages = {0, 1};
  const KvMemory kv(*ops, layout, 2);
  model->reserve(32);
  const auto run = [&](const std::vector<int32_t>& ids) {
    RowBatch batch(*ops, 32, 1);
    batch.begin_sequence(pages.data());
    for (int32_t p = 0; p < 2 * block; ++p) {
      batch.add_row(ids[p], p, (p / block + 1) * block);
      batch.want_output();
    }
    const Tensor hidden = model->forward(batch, kv, {});
    std::vector<std::vector<float>> rows;
    for (int32_t p = 0; p < 2 * block; ++p) rows.emplace_back(hidden.row(p), hidden.row(p) + hidden.cols);
    return rows;
  };
  std::vector<int32_t> ids = random_prompt(2 * block, model->config().vocab, 5);
  const auto before = run(ids);
  ids[block + 2] = (ids[block + 2] + 1) % model->config().vocab;
  const auto later = run(ids);
  for (int32_t p = 0; p < block; ++p) EXPECT_EQ(before[p], later[p]) << p;
  EXPECT_NE(before[block], later[block]);
  ids[block - 1] = (ids[block - 1] + 1) % model->config().vocab;
  EXPECT_NE(run(ids)[0], later[0]);
}

// What a constraint dictates is filled in without a pass, up to the end of the answer, which it may dictate too.
TEST(BlockConstraint, MayDictateTheEndInTheMidstOfABlock) {
  struct Script final : TokenConstraint {
    explicit Script(std::vector<int32_t> ids) : ids(std::move(ids)) {}
    bool mask(std::span<uint32_t> allowed) override {
      std::fill(allowed.begin(), allowed.end(), 0);
      if (at < ids.size()) allowed[ids[at] / 32] |= 1U << (ids[at] % 32);
      return true;
    }
    void advance(int32_t id) override {
      ASSERT_LT(at, ids.size());
      EXPECT_EQ(id, ids[at++]);
    }
    std::vector<int32_t> ids;
    size_t at = 0;
  };
  const SeededCheckpoint checkpoint(data_folder() / "blocks" / "sdar");
  const auto ops = make_device("cpu", {});
  const auto model = Model::load(*ops, checkpoint.folder(), kLongest);
  const auto engine = make_engine(*ops, *model, 8, {});
  for (const size_t length : {1UL, 2UL, 7UL, 8UL, 9UL, 20UL}) {
    SCOPED_TRACE(length);
    for (const bool logprobs : {false, true}) {
      std::vector<int32_t> ids = random_prompt(static_cast<int32_t>(length), 100, 3);
      for (int32_t& id : ids) id += 10;  // neither the mask nor the stop
      ids.back() = 5;
      const auto queue = std::make_shared<EventQueue>();
      Request request;
      request.prompt = random_prompt(11, 100, 4);
      request.max_tokens = 60;
      request.stop_ids = {5};
      request.sampling.top_logprobs = logprobs ? 0 : -1;
      request.constraint = std::make_shared<Script>(ids);
      request.sink = queue;
      ASSERT_TRUE(engine->submit(std::move(request)).ok());
      std::vector<int32_t> tokens;
      for (;;) {
        Event event = queue->next();
        if (auto* end = std::get_if<EndEvent>(&event)) {
          EXPECT_EQ(end->reason, FinishReason::kStop) << end->error;
          break;
        }
        const auto& chunk = std::get<TokenChunk>(event);
        tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
      }
      EXPECT_EQ(tokens, ids);
    }
  }
}

TEST(BlockAbort, InTheMidstOfABlockFreesEveryPage) {
  const SeededCheckpoint checkpoint(data_folder() / "blocks" / "sdar");
  const auto ops = make_device("cpu", {});
  const auto model = Model::load(*ops, checkpoint.folder(), kLongest);
  const auto engine = make_engine(*ops, *model, 0, {});
  struct Sink final : EventSink {
    void on_tokens(const TokensEvent& event) override {
      tokens += event.n;
      if (tokens >= abort_at && engine != nullptr) engine->cancel(id);
    }
    void on_end(EndEvent end) noexcept override {
      reason = end.reason;
      ++ends;
    }
    Engine* engine = nullptr;
    std::atomic<RequestId> id = 0;
    int32_t tokens = 0, abort_at = 0, ends = 0;
    FinishReason reason = FinishReason::kLength;
  };
  for (int32_t abort_at = 1; abort_at < 12; ++abort_at) {
    const auto sink = std::make_shared<Sink>();
    sink->abort_at = abort_at;
    sink->engine = engine.get();
    sink->id = static_cast<RequestId>(abort_at);  // ids count from 1
    Request request;
    request.prompt = random_prompt(5 + abort_at, model->config().vocab, 9);
    request.max_tokens = 100;
    request.sink = sink;
    const Result<RequestId> id = engine->submit(std::move(request));
    ASSERT_TRUE(id.ok());
    ASSERT_EQ(id.value(), sink->id.load());
    engine->wait_idle();
    EXPECT_EQ(sink->ends, 1);
    EXPECT_EQ(sink->reason, FinishReason::kCancelled);
    EXPECT_EQ(engine->counters().pages_held, 0);
  }
}

}  // namespace
}  // namespace ashlar::testing
