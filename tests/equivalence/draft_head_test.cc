// SPDX-License-Identifier: Apache-2.0
// Heads that draft one token at a time keep the promise: whatever they draft, and by whichever way their own K and V
// came to be, tokens are those of plain decoding. What they draft depends on a sequence's tokens alone, too: chunks,
// batches and prefixes found in the cache change no draft. Invariant: same-tokens-by-every-configuration.

#include <gtest/gtest.h>

#include <random>

#include "equivalence/configurations.h"
#include "equivalence/warm_rounds.h"
#include "golden/head_folder.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kLongest = 256;
constexpr int32_t kVocab = 96;
constexpr int32_t kAnswer = 40;

struct Where {
  const char* device;
  const char* head;    // of tests/data/heads
  const char* target;  // of tests/data/families
};

/// A target and the drafter that reads it.
class Pair {
 public:
  Pair(Ops& ops, const Where& where) {
    const auto head = data_folder() / "heads" / where.head;
    const auto target = data_folder() / "families" / where.target;
    if (std::string(where.head).starts_with("mtp")) {
      whole_ = std::make_unique<HeadFolder>(target, head);
      model_ = Model::load(ops, whole_->path(), kLongest);
      drafter_ = whole_->path();
    } else {
      target_ = std::make_unique<SeededCheckpoint>(target);
      head_ = std::make_unique<SeededCheckpoint>(head);
      model_ = Model::load(ops, target_->folder(), kLongest);
      drafter_ = head_->folder();
    }
  }
  Model& model() { return *model_; }

  /// width 1: plain decoding. branches: of trees, where the target verifies any.
  Configuration configuration(int32_t width, int32_t depth, int32_t chunk, bool tight = false,
                              int32_t branches = 0) const {
    Configuration made;
    made.depth = depth;
    made.prefill_chunk = chunk;
    made.tight_memory = tight;
    made.late_plans = depth == 2 && chunk == 13;
    if (width == 1) return made;
    made.decoder.method = method_of_drafter(drafter_);
    made.decoder.drafter = drafter_;
    made.decoder.dflash.width = width;
    made.decoder.dflash.branches = model_->is_recurrent() ? 0 : branches;
    made.decoder.ngram = NgramUse::kNever;
    return made;
  }

 private:
  std::unique_ptr<HeadFolder> whole_;
  std::unique_ptr<SeededCheckpoint> target_, head_;
  std::unique_ptr<Model> model_;
  std::filesystem::path drafter_;
};

std::vector<int32_t> random_ids(uint32_t seed, int32_t n) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) id = 4 + static_cast<int32_t>(random() % (kVocab - 4));
  return ids;
}

SamplingParams penalties() {
  SamplingParams params = hot_sampling();
  params.repetition_penalty = 1.1;
  params.frequency_penalty = 0.2;
  return params;
}

// Prompts of all lengths around pages and chunks, sampled in turns in different ways.
std::vector<Request> requests() {
  const std::vector<SamplingParams> samplings = {{}, warm_sampling(), hot_sampling(), penalties()};
  std::vector<Request> all;
  for (const int32_t length : {1, 2, 15, 16, 17, 33, 48, 100, 129}) {
    Request& made = all.emplace_back();
    made.prompt = random_ids(static_cast<uint32_t>(length), length);
    made.max_tokens = kAnswer;
    made.sampling = samplings[all.size() % samplings.size()];
  }
  return all;
}

std::vector<Answer> run_alone(Engine& engine, const std::vector<Request>& all) {
  std::vector<Answer> answers;
  for (const Request& one : all) answers.push_back(run_together(engine, {one})[0]);
  return answers;
}

class DraftHeadEquivalence : public ::testing::TestWithParam<Where> {
 protected:
  std::unique_ptr<Ops> ops_ = make_device(GetParam().device, {.threads = 2, .isa = {}});
  Pair pair_{*ops_, GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Heads, DraftHeadEquivalence,
                         ::testing::Values(Where{"ref", "mtp_fitted", "qwen3_5_text"},
                                           Where{"cpu", "mtp_fitted", "qwen3_5_text"},
                                           Where{"cpu", "mtp_moe", "qwen3_5_moe"}, Where{"ref", "mtp_glm", "glm4_moe"},
                                           Where{"cpu", "mtp_glm", "glm4_moe"}, Where{"ref", "eagle3_fitted", "qwen3"},
                                           Where{"cpu", "eagle3_fitted", "qwen3"},
                                           Where{"cpu", "eagle3_speculators", "qwen3"}, Where{"ref", "peagle", "qwen3"},
                                           Where{"cpu", "peagle", "qwen3"}, Where{"cpu", "eagle3_layers", "qwen3"}),
                         [](const auto& info) { return std::string(info.param.device) + "_" + info.param.head; });

TEST_P(DraftHeadEquivalence, EveryConfigurationGivesTheTokensOfPlainDecodingAlone) {
  const auto plain = open_engine(*ops_, pair_.model(), pair_.configuration(1, 1, 4096), kLongest);
  std::vector<std::vector<int32_t>> expected;
  for (const Answer& answer : run_alone(*plain, requests())) expected.push_back(answer.tokens);
  WarmRounds rounds;
  const bool on_ref = std::string(GetParam().device) == "ref";
  const int32_t widest = on_ref ? 8 : 16;
  for (const auto& [width, branches] : {std::pair{5, 0}, {widest, 3}, {2, 0}, {0, 3}}) {
    if (width == 2 && on_ref) continue;  // slow, and the code is the cpu's
    if (width == widest && pair_.model().is_recurrent()) continue;
    for (const int32_t depth : {1, 2}) {
      for (const int32_t chunk : {4096, 13, 1}) {
        for (const bool tight : {false, true}) {
          SCOPED_TRACE("width " + std::to_string(width) + ", branches " + std::to_string(branches) + ", depth " +
                       std::to_string(depth) + ", chunks of " + std::to_string(chunk) + (tight ? ", tight" : ""));
          Configuration asked = pair_.configuration(width, depth, chunk, tight, branches);
          if (width == 0) asked.decoder.ngram = NgramUse::kWherePaying;
          if (width >= 5 && chunk == 13) asked.decoder.dflash.window = 32;
          const auto engine = open_engine(*ops_, pair_.model(), asked, kLongest);
          rounds.run(*engine, requests(), expected, tight);
        }
      }
    }
  }
  rounds.expect_all_kinds();
}

// With one width, what is accepted in which step says what was drafted.
TEST_P(DraftHeadEquivalence, DraftsAreThoseOfAColdPromptAlone) {
  int64_t accepted[2] = {};
  for (const int32_t branches : {0, 3}) {
    if (branches > 0 && pair_.model().is_recurrent()) continue;
    std::vector<std::vector<int32_t>> lengths;
    for (const auto& [depth, chunk] : {std::pair{1, 4096}, {1, 13}, {2, 13}, {2, 1}}) {
      const Configuration asked = pair_.configuration(5, depth, chunk, false, branches);
      const auto engine = open_engine(*ops_, pair_.model(), asked, kLongest);
      for (const bool together : {false, true, true}) {  // the last one finds all prompts
        if (!together) engine->drop_prefix_cache();
        const std::vector<Answer> answers =
            together ? run_together(*engine, requests()) : run_alone(*engine, requests());
        for (size_t i = 0; i < answers.size(); ++i) {
          if (lengths.size() <= i) lengths.push_back(answers[i].end.stats.lengths);
          EXPECT_EQ(answers[i].end.stats.lengths, lengths[i])
              << "request " << i << (together ? " together" : " alone") << ", depth " << depth << ", chunks of "
              << chunk << ", " << branches << " branches";
          accepted[branches > 0 ? 1 : 0] += answers[i].end.stats.accepted;
        }
      }
    }
  }
  EXPECT_GT(accepted[0], 0);
  if (!pair_.model().is_recurrent()) {
    EXPECT_GT(accepted[1], 0);
  }
}

// Prompts that go on differently after a whole number of pages: the second one's first row there is made with the
// hidden state that the first one left.
TEST_P(DraftHeadEquivalence, AForkedPromptDraftsAsAColdOne) {
  const std::vector<int32_t> shared = random_ids(1, 64);
  std::vector<Request> all;
  for (uint32_t seed = 2; seed < 6; ++seed) {
    Request& made = all.emplace_back();
    made.prompt = shared;
    const std::vector<int32_t> own = random_ids(seed, 9);
    made.prompt.insert(made.prompt.end(), own.begin(), own.end());
    made.max_tokens = kAnswer;
    made.sampling = hot_sampling();
  }
  const auto warm = open_engine(*ops_, pair_.model(), pair_.configuration(5, 1, 4096), kLongest);
  const auto cold = open_engine(*ops_, pair_.model(), pair_.configuration(5, 1, 4096), kLongest);
  int64_t cached = 0;
  for (const Request& one : all) {
    cold->drop_prefix_cache();
    const Answer expected = run_together(*cold, {one})[0];
    const Answer found = run_together(*warm, {one})[0];
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.end.stats.lengths, expected.end.stats.lengths);
    cached += found.end.stats.cached_tokens;
  }
  EXPECT_GT(cached, 0);
}

TEST_P(DraftHeadEquivalence, RejectionSamplingDoesNotDependOnBatchesAndChunks) {
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
      const auto engine = open_engine(*ops_, pair_.model(), pair_.configuration(4, depth, chunk), kLongest);
      const std::vector<Answer> answers = together ? run_together(*engine, all) : run_alone(*engine, all);
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

// The run of the goldens, step by step: tokens, and how many each step gave.
TEST_P(DraftHeadEquivalence, TheGoldenRunIsTheEnginesToo) {
  if (std::string(GetParam().device) != "ref") GTEST_SKIP() << "elsewhere drafts may differ in near ties";
  const SafetensorsFile goldens(data_folder() / "heads" / GetParam().head / "goldens.safetensors");
  const std::vector<int32_t> lengths = ints(goldens, "run.accept_lengths");
  std::vector<int32_t> output = ints(goldens, "run.output_ids");
  const auto engine = open_engine(*ops_, pair_.model(), pair_.configuration(5, 1, 13), kLongest);
  Request asked;
  asked.prompt = ints(goldens, "prompt_ids");
  asked.max_tokens = 64;  // steps near the end have fewer rows
  auto [tokens, steps] = steps_of(*engine, std::move(asked));
  ASSERT_GT(steps.size(), lengths.size());
  EXPECT_EQ(std::vector<int32_t>(steps.begin() + 1, steps.begin() + 1 + static_cast<int64_t>(lengths.size())), lengths);
  tokens.resize(output.size());
  EXPECT_EQ(tokens, output);
}

// The same with trees, whose every path has a forward of its own in the golden.
TEST_P(DraftHeadEquivalence, TheGoldenRunWithTreesIsTheEnginesToo) {
  const auto file = data_folder() / "heads" / GetParam().head / "tree.json";
  if (!file_exists(file)) GTEST_SKIP() << "without a golden of trees";
  if (std::string(GetParam().device) != "ref") GTEST_SKIP() << "elsewhere drafts may differ in near ties";
  const Json golden = read_json_file(file);
  const Configuration asked =
      pair_.configuration(golden["width"].get<int32_t>(), 1, 13, false, golden["branches"].get<int32_t>());
  const auto engine = open_engine(*ops_, pair_.model(), asked, kLongest);
  for (size_t i = 0; i < golden["prompts"].size(); ++i) {
    Request request;
    request.prompt = golden["prompts"][i].get<std::vector<int32_t>>();
    request.max_tokens = 64;  // steps near the end have fewer rows
    const auto [tokens, steps] = steps_of(*engine, std::move(request));
    const auto lengths = golden["accept_lengths"][i].get<std::vector<int32_t>>();
    const auto output = golden["outputs"][i].get<std::vector<int32_t>>();
    ASSERT_GT(steps.size(), lengths.size());
    EXPECT_EQ(std::vector<int32_t>(steps.begin() + 1, steps.begin() + 1 + static_cast<int64_t>(lengths.size())),
              lengths);
    EXPECT_EQ(std::vector<int32_t>(tokens.begin(), tokens.begin() + static_cast<int64_t>(output.size())), output);
  }
}

}  // namespace
}  // namespace ashlar::testing
