// SPDX-License-Identifier: Apache-2.0
// Models with recurrent layers keep the promise: however a prompt is cut into chunks, drafts are rejected, states come
// from a snapshot, or a sequence begins anew after a preemption, the tokens are those of plain decoding alone.

#include "equivalence/recurrent_model.h"

#include <gtest/gtest.h>

#include <random>

#include "equivalence/configurations.h"
#include "equivalence/warm_rounds.h"
#include "golden/golden_data.h"
#include "golden/head_folder.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kLongest = RecurrentModel::kLongest;

std::vector<int32_t> random_ids(uint32_t seed, int32_t n) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) id = 4 + static_cast<int32_t>(random() % (RecurrentModel::kVocab - 4));
  return ids;
}

Request request(std::vector<int32_t> prompt, const SamplingParams& sampling, int32_t tokens = 40) {
  Request made;
  made.prompt = std::move(prompt);
  made.max_tokens = tokens;
  made.sampling = sampling;
  return made;
}

// Prompts of all lengths around pages and chunks, sampled in turns in different ways.
std::vector<Request> requests() {
  const std::vector<SamplingParams> samplings = {{}, cool_sampling(), hot_sampling()};
  std::vector<Request> all;
  for (const int32_t length : {1, 2, 15, 16, 17, 33, 48, 100, 129}) {
    all.push_back(request(random_ids(static_cast<uint32_t>(length), length), samplings[all.size() % 3]));
  }
  return all;
}

/// What the tests run over: the recurrence above, a tiny Qwen3.5, whose states are matrices, or a tiny LFM2,
/// whose states are the last few rows.
class AnyModel {
 public:
  virtual ~AnyModel() = default;
  virtual Model& model() = 0;
  /// Random drafters that read this model.
  virtual std::vector<std::filesystem::path> drafters() const { return {}; }
  /// Ways to draft without one.
  virtual std::vector<std::string> methods() const { return {"ngram"}; }
};

class Recurrence final : public AnyModel {
 public:
  explicit Recurrence(Ops& ops) : model_(ops, {true, false, true, false}) {}
  Model& model() override { return model_.model(); }

 private:
  RecurrentModel model_;
};

class DeltaNets final : public AnyModel {
 public:
  explicit DeltaNets(Ops& ops)
      : target_(data_folder() / "families" / "qwen3_5_text", data_folder() / "heads" / "mtp_fitted"),
        drafter_(data_folder() / "drafters" / "dflash_full"),
        model_(Model::load(ops, target_.path(), kLongest)) {}
  Model& model() override { return *model_; }
  std::vector<std::filesystem::path> drafters() const override { return {drafter_.folder()}; }
  std::vector<std::string> methods() const override { return {"ngram", "mtp"}; }

 private:
  HeadFolder target_;
  SeededCheckpoint drafter_;
  std::unique_ptr<Model> model_;
};

class ShortConvs final : public AnyModel {
 public:
  explicit ShortConvs(Ops& ops)
      : target_(data_folder() / "families" / "lfm2_bias"), model_(Model::load(ops, target_.folder(), kLongest)) {}
  Model& model() override { return *model_; }

 private:
  SeededCheckpoint target_;
  std::unique_ptr<Model> model_;
};

struct Where {
  const char* device;
  const char* layers;
};

class Recurrent : public ::testing::TestWithParam<Where> {
 protected:
  std::unique_ptr<AnyModel> make() {
    if (std::string(GetParam().layers) == "delta_nets") return std::make_unique<DeltaNets>(*ops_);
    if (std::string(GetParam().layers) == "short_convs") return std::make_unique<ShortConvs>(*ops_);
    return std::make_unique<Recurrence>(*ops_);
  }
  std::unique_ptr<Ops> ops_ = make_device(GetParam().device, {.threads = 2, .isa = {}});
};
INSTANTIATE_TEST_SUITE_P(Devices, Recurrent,
                         ::testing::Values(Where{"ref", "recurrence"}, Where{"cpu", "recurrence"},
                                           Where{"ref", "delta_nets"}, Where{"cpu", "delta_nets"},
                                           Where{"ref", "short_convs"}, Where{"cpu", "short_convs"}),
                         [](const auto& info) { return std::string(info.param.device) + "_" + info.param.layers; });

TEST_P(Recurrent, EveryConfigurationGivesTheTokensOfPlainDecodingAlone) {
  const auto hybrid = make();
  std::vector<std::vector<int32_t>> expected;
  for (Request& alone : requests()) {
    const auto engine = open_engine(*ops_, hybrid->model(), configuration("", 1, 1, 4096, false), kLongest);
    expected.push_back(run_together(*engine, {std::move(alone)})[0].tokens);
    EXPECT_EQ(expected.back().size(), 40U);
  }
  WarmRounds rounds;
  std::vector<std::pair<std::string, int32_t>> methods = {{"", 1}, {"ngram", 3}, {"ngram", 16}};
  if (!hybrid->drafters().empty()) methods.insert(methods.end(), {{"dflash", 2}, {"dflash", 0}});
  for (const auto& [method, width] : methods) {
    for (const int32_t depth : {1, 2}) {
      for (const int32_t chunk : {4096, 13, 1}) {
        for (const bool tight : {false, true}) {
          SCOPED_TRACE(method + " " + std::to_string(width) + ", depth " + std::to_string(depth) + ", chunks of " +
                       std::to_string(chunk) + (tight ? ", tight" : ""));
          Configuration asked = configuration(method, width, depth, chunk, tight);
          if (method == "dflash") asked.decoder.drafter = hybrid->drafters()[0];
          asked.decoder.dflash.width = width;
          const auto engine = open_engine(*ops_, hybrid->model(), asked, kLongest);
          rounds.run(*engine, requests(), expected, tight);
        }
      }
    }
  }
  rounds.expect_all_kinds();
}

TEST_P(Recurrent, TheThirdPromptBeginsWhereTheFirstTwoParted) {
  const auto hybrid = make();
  const std::vector<int32_t> shared = random_ids(1, 70);  // four whole pages
  const auto prompt = [&](uint32_t seed) {
    std::vector<int32_t> ids = shared;
    const std::vector<int32_t> own = random_ids(seed, 60);
    ids.insert(ids.end(), own.begin(), own.end());
    return ids;
  };
  const auto engine = open_engine(*ops_, hybrid->model(), configuration("", 1, 2, 32, false), kLongest);
  const std::vector<int32_t> cached = {0, 0, 64, 64, 128};
  for (size_t i = 0; i < cached.size(); ++i) {
    const Request asked = request(prompt(100 + static_cast<uint32_t>(i == 4 ? 2 : i)), hot_sampling(), 20);
    const Answer warm = run_together(*engine, {asked})[0];
    EXPECT_EQ(warm.end.stats.cached_tokens, cached[i]) << i;
    const auto cold = open_engine(*ops_, hybrid->model(), configuration("", 1, 1, 4096, false), kLongest);
    EXPECT_EQ(warm.tokens, run_together(*cold, {asked})[0].tokens) << i;
  }
}

// More prompts than there are snapshots: the ones used last stay, and nothing is wrong for those that went.
TEST_P(Recurrent, SnapshotsRunOutWithoutAnyoneNoticing) {
  const auto hybrid = make();
  EngineOptions options;
  options.max_sequences = 2;  // eight snapshots
  options.kv_pages = 400;
  options.prefill_chunk = 32;
  Engine engine(*ops_, make_decoder(hybrid->model(), configuration("ngram", 4, 2, 32, false).decoder), options);
  std::vector<std::vector<int32_t>> first;
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < 20; ++i) {
      const Answer answer = run_together(engine, {request(random_ids(i, 40), cool_sampling(), 10)})[0];
      if (round == 0) first.push_back(answer.tokens);
      EXPECT_EQ(answer.tokens, first[i]);
      EXPECT_EQ(answer.end.stats.cached_tokens, 0);  // twelve others came since
    }
  }
  const Answer again = run_together(engine, {request(random_ids(19, 40), cool_sampling(), 10)})[0];
  EXPECT_EQ(again.tokens, first[19]);
  EXPECT_EQ(again.end.stats.cached_tokens, 32);
}

// Allows everything, but every other mask is missing when it is wanted first: a span ends before the row, which of a
// prompt may be the last one.
class LateConstraint final : public TokenConstraint {
 public:
  bool prepare() override {
    if (stage_ == kNew) stage_ = heard_ % 2 == 0 ? kAway : kFound;
    if (stage_ == kAway) signal_->raise();
    return stage_ == kFound;
  }
  bool waits() const override {
    Stage away = kAway;
    return stage_.compare_exchange_strong(away, kFound);
  }
  void wake_with(std::shared_ptr<WakeSignal> signal) override { signal_ = std::move(signal); }
  bool mask(std::span<uint32_t>) override { return false; }
  void advance(int32_t) override {
    ++heard_;
    stage_ = kNew;
  }

 private:
  enum Stage : uint8_t { kNew, kAway, kFound };
  int32_t heard_ = 0;
  mutable std::atomic<Stage> stage_ = kNew;
  std::shared_ptr<WakeSignal> signal_;
};

TEST_P(Recurrent, MissingMasksCutSpansAndChangeNothing) {
  const auto hybrid = make();
  for (const int32_t length : {1, 2, 17, 40}) {
    std::vector<std::vector<int32_t>> answers;
    for (const std::string& method : hybrid->methods()) {
      for (const bool late : {false, true}) {
        for (const int32_t chunk : {4096, 13}) {
          const auto engine = open_engine(*ops_, hybrid->model(), configuration(method, 8, 2, chunk, false), kLongest);
          Request asked = request(random_ids(7, length), cool_sampling());
          if (late) asked.constraint = std::make_unique<LateConstraint>();
          answers.push_back(run_together(*engine, {std::move(asked)})[0].tokens);
          EXPECT_EQ(answers.back(), answers[0])
              << method << ", " << length << (late ? " late" : "") << ", chunks of " << chunk;
        }
      }
    }
  }
}

// Drafts of a drafter that knows nothing, accepted or not by chance: what is accepted goes through the log.
TEST_P(Recurrent, RejectionSamplingDoesNotDependOnBatchesAndChunks) {
  const auto hybrid = make();
  if (hybrid->drafters().empty()) GTEST_SKIP() << "no drafter reads this model";
  std::vector<Request> all = requests();
  for (Request& asked : all) {
    asked.sampling = hot_sampling();
    asked.sampling.temperature = 3;
    asked.sampling.scheme = SamplingScheme::kRejection;
  }
  std::vector<std::vector<int32_t>> expected;
  int64_t accepted = 0;
  for (const auto& [depth, chunk] : {std::pair{1, 4096}, {2, 13}, {2, 1}}) {
    for (const bool together : {false, true}) {
      Configuration asked = configuration("dflash", 1, depth, chunk, false);
      asked.decoder.drafter = hybrid->drafters()[0];
      asked.decoder.dflash = {.width = 4, .branches = 0};
      asked.decoder.ngram = NgramUse::kNever;
      const auto engine = open_engine(*ops_, hybrid->model(), asked, kLongest);
      std::vector<Answer> answers;
      for (size_t i = 0; i < all.size() && !together; ++i) answers.push_back(run_together(*engine, {all[i]})[0]);
      if (together) answers = run_together(*engine, all);
      for (size_t i = 0; i < answers.size(); ++i) {
        if (expected.size() <= i) expected.push_back(answers[i].tokens);
        EXPECT_EQ(answers[i].tokens, expected[i])
            << i << (together ? " together" : " alone") << ", chunks of " << chunk;
        accepted += answers[i].end.stats.accepted;
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

// Drafters of every kind over layers with states, of which what is accepted goes through the log whatever drafted it.
class RecurrentDrafters : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(OverDeltaNets, RecurrentDrafters,
                         ::testing::Values("drafters/dflash2", "drafters/dspark", "drafters/speculators_dspark",
                                           "drafters/lilicorr", "drafters/domino", "drafters/speculators_xpress",
                                           "heads/eagle3_fitted", "heads/eagle3_speculators", "heads/peagle"),
                         [](const auto& info) { return std::filesystem::path(info.param).filename().string(); });

TEST_P(RecurrentDrafters, GiveTheTokensOfPlainDecodingAlone) {
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  DeltaNets hybrid(*ops);
  const SeededCheckpoint drafter(data_folder() / GetParam());
  std::vector<Request> some;
  for (const size_t i : {0, 2, 5, 7}) some.push_back(requests()[i]);
  std::vector<std::vector<int32_t>> expected;
  for (const Request& alone : some) {
    const auto engine = open_engine(*ops, hybrid.model(), configuration("", 1, 1, 4096, false), kLongest);
    expected.push_back(run_together(*engine, {alone})[0].tokens);
  }
  WarmRounds rounds;
  for (const bool tight : {false, true}) {
    Configuration asked =
        configuration(method_of_drafter(drafter.folder()), 1, tight ? 1 : 2, tight ? 4096 : 13, tight);
    asked.decoder.drafter = drafter.folder();
    asked.decoder.dflash.width = 4;
    asked.decoder.ngram = NgramUse::kNever;
    const auto engine = open_engine(*ops, hybrid.model(), asked, kLongest);
    rounds.run(*engine, some, expected, tight);
  }
  EXPECT_GT(rounds.drafted(), 0);
}

// Without attention, what was said before reaches a row by the states alone.
TEST_P(Recurrent, StatesCarryWhatWasSaidBefore) {
  RecurrentModel recurrent(*ops_, {true, true, true, true});
  const auto engine = open_engine(*ops_, recurrent.model(), configuration("", 1, 1, 5, false), kLongest);
  std::vector<std::vector<float>> logprobs;
  for (const int32_t begin : {5, 6}) {
    Request asked = request({begin, 9, 11, 13, 15, 17, 19, 21, 23}, {}, 1);
    asked.sampling.top_logprobs = 0;
    logprobs.push_back(run_together(*engine, {asked})[0].logprobs);
  }
  EXPECT_NE(logprobs[0], logprobs[1]);
}

TEST_P(Recurrent, BranchesAndBlocksAreRefusedInWords) {
  const auto hybrid = make();
  DecoderSpec block;
  block.method = "block-diffusion";
  EXPECT_THROW(make_decoder(hybrid->model(), block), Error);
  DecoderSpec tree;
  tree.method = "dflash";
  tree.dflash.branches = 5;
  try {
    make_decoder(hybrid->model(), tree);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("verifies chains"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ashlar::testing
