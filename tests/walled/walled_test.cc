// SPDX-License-Identifier: Apache-2.0
// Everything runs on a device whose memory the host cannot touch, with the results of the reference device.
// Invariant: no-host-pointer-in-an-op.

#include <gtest/gtest.h>

#include <cstdlib>

#include "device/device_array.h"
#include "equivalence/configurations.h"
#include "equivalence/head_drafter.h"
#include "equivalence/recurrent_model.h"
#include "equivalence/suite.h"
#include "golden/golden_data.h"
#include "golden/head_folder.h"
#include "golden/seeded_checkpoint.h"
#include "measure/engine/batch_bench.h"
#include "model/row_batch.h"
#include "walled/walled_ops.h"

namespace ashlar::testing {
namespace {

TEST(WallDeathTest, TheHostCannotReadDeviceMemory) {
  WalledOps ops;
  const auto buffer = ops.allocate(64);
  EXPECT_DEATH(std::printf("%d", static_cast<int>(*buffer->data())), "");
}

TEST(WallDeathTest, OpsAreNotGivenHostMemory) {
  WalledOps ops;
  const auto buffer = ops.allocate(64);
  float host[16] = {};
  const Tensor inside = {reinterpret_cast<float*>(buffer->data()), 1, 16, 16};
  const Tensor outside = {host, 1, 16, 16};
  EXPECT_DEATH(
      {
        ops.copy(outside, inside);
        ops.wait();
      },
      "address_is_the_devices");
}

TEST(Wall, OpsRunWhenTheirResultsAreWaitedFor) {
  WalledOps ops;
  const auto buffer = ops.allocate(64);
  float value = 3;
  ops.upload(&value, buffer->data(), sizeof(value));
  value = 4;  // may be used again
  ops.softcap({reinterpret_cast<float*>(buffer->data()), 1, 1, 1}, 0.5F);
  EXPECT_EQ(ops.counts().waits, 0);
  float found = 0;
  ops.download(buffer->data(), &found, sizeof(found));
  EXPECT_FLOAT_EQ(found, 0.5F * std::tanh(6.0F));
}

// Of all kinds, and to the same places for other sequences of as many rows, so that their pass has the same key.
TEST(Wall, RowsReachTheDeviceInOneCopy) {
  WalledOps ops;
  RowBatch batch(ops, 32, 16, 4);
  DeviceArray<int32_t> pages(ops, 4);
  const int64_t before = ops.counts().uploads;
  PassKey first(&batch, 6);
  for (const int32_t sequences : {1, 2, 3, 6}) {
    batch.clear();
    for (int32_t r = 0; r < 6; ++r) {
      if (r % (6 / sequences) == 0) batch.begin_sequence(pages.device());
      batch.add_row(r, r, 6);
    }
    batch.want_output();
    PassKey key(&batch, 6);
    key.add(batch.rows());
    key.add(batch.outputs());
    if (sequences == 1) first = key;
    EXPECT_EQ(key, first) << sequences;
  }
  EXPECT_EQ(ops.counts().uploads, before + 4);
  batch.add_without_kv(7, 6);
  batch.begin_branch(6);
  batch.add_branch_slot(3);
  batch.add_in_scratch_slot(8, 6, 3);
  const Rows rows = batch.rows();
  PassKey key(&batch, 6);
  key.add(rows);
  EXPECT_NE(key, first);
  EXPECT_EQ(ops.counts().uploads, before + 5);
  BranchTable branch;
  ops.download(reinterpret_cast<const std::byte*>(rows.branch_tables + 6), reinterpret_cast<std::byte*>(&branch),
               sizeof(branch));
  int32_t slot = 0;
  ops.download(reinterpret_cast<const std::byte*>(branch.slots), &slot, sizeof(slot));
  EXPECT_EQ(slot, 3);
}

std::vector<int32_t> prompt_of(const Json& goldens, int i) {
  return goldens["cases"][i]["prompt_ids"].get<std::vector<int32_t>>();
}

std::vector<Answer> answers(Ops& ops, const std::filesystem::path& folder, const Configuration& configuration,
                            std::vector<Request> requests) {
  const auto model = Model::load(ops, folder, 160);
  const auto engine = open_engine(ops, *model, configuration, 160);
  return run_together(*engine, std::move(requests));
}

std::vector<Request> requests(int32_t tokens) {
  const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
  std::vector<Request> all;
  for (int i = 0; i < 3; ++i) {
    Request request;
    request.prompt = prompt_of(json, i);
    request.max_tokens = tokens;
    if (i == 1) request.sampling = hot_sampling();
    if (i == 2) request.sampling = penalised_sampling();
    request.sampling.top_logprobs = 2;
    all.push_back(std::move(request));
  }
  return all;
}

void expect_same(const std::vector<Answer>& found, const std::vector<Answer>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(found[i].logprobs, expected[i].logprobs) << i;
    EXPECT_FALSE(found[i].tokens.empty());
  }
}

TEST(Wall, DraftedAnswersAreThoseOfTheReference) {
  const auto ref = make_device("ref", {});
  const std::vector<Answer> expected = answers(*ref, models_folder() / "pebble-11m", {}, requests(12));
  const HeadDrafter selecting("dflash2"), lattice("lilicorr"), rated("dspark"), in_turn("domino"), refined("xpress");
  const std::filesystem::path plain = models_folder() / "pebble-11m-dflash";
  for (const auto& [window, branches, drafter] : {std::tuple{0, 0, plain},
                                                  {0, 3, plain},
                                                  {32, 0, plain},
                                                  {32, 3, plain},
                                                  {0, 0, selecting.folder()},
                                                  {32, 3, selecting.folder()},
                                                  {0, 0, lattice.folder()},
                                                  {32, 3, lattice.folder()},
                                                  {0, 0, rated.folder()},
                                                  {0, 0, in_turn.folder()},
                                                  {0, 0, refined.folder()}}) {
    SCOPED_TRACE(drafter.string());
    WalledOps walled;
    Configuration drafted;
    drafted.decoder = {"dflash", drafter, {branches > 0 ? 8 : 16, window, 1, DenoiseSchedule::kCosine, branches}};
    drafted.depth = 2;
    drafted.prefill_chunk = 13;
    expect_same(answers(walled, models_folder() / "pebble-11m", drafted, requests(12)), expected);
    EXPECT_GT(walled.counts().ops, walled.counts().waits);
  }
}

// Distributions of drafts stay on the device. One row width for both, since rejection's tokens depend on the drafts.
TEST(Wall, RejectionAcceptsAsOnTheReference) {
  const auto ref = make_device("ref", {});
  const HeadDrafter selecting("dflash2");
  for (const auto& drafter : {models_folder() / "pebble-11m-dflash", selecting.folder()}) {
    Configuration drafted;
    drafted.decoder = {"dflash", drafter, {.width = 8, .branches = 0}};
    std::vector<Request> all = requests(10);
    for (Request& request : all) request.sampling.scheme = SamplingScheme::kRejection;
    WalledOps walled;
    expect_same(answers(walled, models_folder() / "pebble-11m", drafted, all),
                answers(*ref, models_folder() / "pebble-11m", drafted, all));
  }
}

// A step waits for the drafts and for the tokens, whatever the number of its sequences and rows.
TEST(Wall, AStepWaitsTwice) {
  const HeadDrafter selecting("dflash2");
  for (const auto& [selects, temperature] : {std::pair{false, 0.0}, {false, 0.8}, {true, 0.0}, {true, 0.8}}) {
    Configuration drafted;
    const auto drafter = selects ? selecting.folder() : models_folder() / "pebble-11m-dflash";
    drafted.decoder = {"dflash", drafter, {.width = 8, .branches = 0}};
    WalledOps walled;
    const auto model = Model::load(walled, models_folder() / "pebble-11m", 160);
    const auto engine = open_engine(walled, *model, drafted, 160);
    std::vector<Request> all = requests(40);
    for (Request& request : all) {
      request.sampling = {};
      request.sampling.temperature = temperature;
    }
    const int64_t before = walled.counts().waits;
    const auto prompts = static_cast<int64_t>(all.size());
    int64_t longest = 0;  // verify steps of the request that had most
    for (const Answer& answer : run_together(*engine, std::move(all))) {
      longest = std::max<int64_t>(longest, answer.end.stats.verify_steps);
    }
    const int64_t waits = walled.counts().waits - before;
    EXPECT_GE(waits, 2 * longest);
    EXPECT_LE(waits, 2 * (longest + 2 * prompts));  // they may begin and end apart
  }
}

// Sequences that do not draft keep the drafter informed: what that asks of the device does not grow with their number.
TEST(Wall, AStepWithoutDraftsTakesAsManyOpsForManySequences) {
  const auto ops_of = [](const std::string& method, const std::filesystem::path& drafter, int32_t sequences) {
    WalledOps walled;
    const auto model = Model::load(walled, models_folder() / "pebble-11m", 160);
    DecoderSpec spec = {method, drafter, {.width = 8, .branches = 0}};
    std::vector<std::vector<int32_t>> prompts;
    for (int32_t s = 0; s < sequences; ++s) prompts.push_back({20 + s, 300, 7});
    BatchBench bench(walled, make_decoder(*model, spec), prompts, 20, 64);
    const int64_t before = walled.counts().ops;
    bench.run(0, sequences, 6, 1);
    return walled.counts().ops - before;
  };
  const HeadDrafter reading("dflash2");  // the newest hidden states
  for (const auto& drafter : {models_folder() / "pebble-11m-dflash", reading.folder()}) {
    const int64_t few = ops_of("dflash", drafter, 2);
    EXPECT_GT(few, 0);
    EXPECT_EQ(ops_of("dflash", drafter, 7), few);
  }
}

// The whole suite in the long tier; otherwise each decoder with one of its depths, chunkings and memories.
TEST(Wall, EveryConfigurationGivesTheSameTokens) {
  const auto cpu = make_device("cpu", {.threads = 1, .isa = {}});
  suite::EquivalenceSuite suite(*cpu);
  WalledOps walled("cpu");
  const bool all = std::getenv("ASHLAR_LONG_TESTS") != nullptr;
  suite.run(walled, "walled", [all](size_t configuration, size_t sampling) {
    const size_t decoder = configuration / 8;
    return all || (configuration % 8 == decoder % 8 && sampling == (decoder + decoder / 4) % 4);
  });
  suite.print();
  EXPECT_GE(suite.comparisons, 200);
  EXPECT_GT(suite.accepted, 0U);
  std::printf("%lld passes, %lld repeated\n", static_cast<long long>(walled.counts().passes),
              static_cast<long long>(walled.counts().repeated));
  EXPECT_GT(walled.counts().repeated, walled.counts().passes / 2);
}

TEST(Wall, BlocksAreThoseOfTheReference) {
  const auto ref = make_device("ref", {});
  const auto folder = models_folder() / "pebble-11m-sdar";
  WalledOps walled;
  expect_same(answers(walled, folder, {}, requests(10)), answers(*ref, folder, {}, requests(10)));
}

// Families with states, or with ops of their own.
class WallOfFamilies : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, WallOfFamilies,
                         ::testing::Values("qwen3_5_text", "lfm2_bias", "lfm2_moe", "gemma4", "gemma4_text",
                                           "gemma4_moe", "gpt_oss"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(WallOfFamilies, AnswersAreThoseOfTheReference) {
  const SeededCheckpoint target(data_folder() / "families" / GetParam());
  const auto ref = make_device("ref", {});
  std::vector<Request> all;
  for (const int32_t length : {5, 40, 41}) {
    Request request;
    for (int32_t i = 0; i < length; ++i) request.prompt.push_back(4 + i * 7 % 60);  // repeats itself
    request.max_tokens = 20;
    all.push_back(std::move(request));
  }
  const std::vector<Answer> expected = answers(*ref, target.folder(), {}, all);
  Configuration drafted;
  drafted.decoder.method = "ngram";
  drafted.decoder.ngram = NgramUse::kAlways;
  drafted.depth = 2;
  drafted.prefill_chunk = 13;
  WalledOps walled;
  expect_same(answers(walled, target.folder(), drafted, all), expected);
}

// Heads that draft one token at a time, whose passes read what the passes before them left on the device.
TEST(Wall, HeadsDraftAsOnTheReference) {
  const auto ref = make_device("ref", {});
  const HeadFolder drafting(data_folder() / "families" / "qwen3_5_text", data_folder() / "heads" / "mtp_fitted");
  const SeededCheckpoint target(data_folder() / "families" / "qwen3");
  const auto eagle3 = data_folder() / "heads" / "eagle3_fitted";
  const SeededCheckpoint masked(data_folder() / "heads" / "peagle");
  std::vector<Request> all;
  for (const int32_t length : {1, 5, 40, 41}) {
    Request request;
    for (int32_t i = 0; i < length; ++i) request.prompt.push_back(4 + i * 7 % 60);
    request.max_tokens = 20;
    if (length % 2 == 0) request.sampling = hot_sampling();
    all.push_back(std::move(request));
  }
  for (const auto& [folder, method, drafter] : {std::tuple{drafting.path(), "mtp", drafting.path()},
                                                {target.folder(), "eagle3", eagle3},
                                                {target.folder(), "eagle3", masked.folder()}}) {
    SCOPED_TRACE(drafter.string());
    Configuration drafted;
    drafted.decoder = {method, drafter, {.width = 5}};
    drafted.depth = 2;
    drafted.prefill_chunk = 13;
    WalledOps walled;
    expect_same(answers(walled, folder, drafted, all), answers(*ref, folder, {}, all));
  }
}

// Small, so that all of it fits: n-gram drafts, preemption, prefix hits.
TEST(Wall, ManyConfigurationsOfASmallModel) {
  const auto ref = make_device("ref", {});
  const auto run = [](Ops& ops, const Configuration& configuration) {
    RecurrentModel small(ops, {false, false, false, false});
    const auto engine = open_engine(ops, small.model(), configuration, RecurrentModel::kLongest);
    std::vector<Answer> all;
    for (int round = 0; round < 2; ++round) {
      std::vector<Request> requests;
      std::mt19937 random(5);
      for (const int32_t length : {1, 15, 17, 60, 100}) {
        Request request;
        for (int32_t i = 0; i < length; ++i) request.prompt.push_back(4 + static_cast<int32_t>(random() % 60));
        request.max_tokens = 40;
        if (length % 2 == 0) request.sampling = warm_sampling();
        requests.push_back(std::move(request));
      }
      for (Answer& answer : run_together(*engine, std::move(requests))) all.push_back(std::move(answer));
    }
    return all;
  };
  const std::vector<Answer> expected = run(*ref, {});
  for (const char* method : {"", "ngram"}) {
    for (const bool tight : {false, true}) {
      for (const int32_t chunk : {4096, 13}) {
        WalledOps walled;
        Configuration configuration;
        configuration.decoder.method = method;
        configuration.decoder.ngram = NgramUse::kAlways;
        configuration.depth = 2;
        configuration.prefill_chunk = chunk;
        configuration.tight_memory = tight;
        expect_same(run(walled, configuration), expected);
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
