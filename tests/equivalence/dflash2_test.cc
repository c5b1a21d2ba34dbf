// SPDX-License-Identifier: Apache-2.0
// The promise of the engine with drafters whose drafts know the one before them, DFlash2, LiLiCorr, DSpark, Domino
// and xPress: as any, they change no token. Invariant: same-tokens-by-every-configuration.

#include "base/error.h"
#include "decode/policy/row_budget.h"
#include "decode/propose/dflash.h"
#include "device/device_array.h"
#include "equivalence/head_drafter.h"
#include "equivalence/suite.h"

namespace ashlar::testing {
namespace {

class Heads : public ::testing::TestWithParam<std::string> {};

TEST_P(Heads, GiveTheSameTokensByEveryConfiguration) {
  const HeadDrafter drafter(GetParam());
  const std::vector<Configuration> all = suite::in_every_way(drafter.methods());
  const auto one = make_device("cpu", {.threads = 1, .isa = {}});
  suite::EquivalenceSuite suite(*one);
  for (const int32_t threads : {1, 2}) {
    const auto ops = make_device("cpu", {.threads = threads, .isa = {}});
    // Every method goes in two ways, so that it meets both loops, chunkings and memories, and the next one in two
    // others. In all in the long tier.
    suite.run(
        *ops, std::to_string(threads) + " threads",
        [threads](size_t configuration, size_t sampling) {
          return is_long() || (suite::in_two_ways(configuration) && suite::meets(configuration, threads, sampling));
        },
        all);
  }
  suite.print();
  EXPECT_GE(suite.comparisons, is_long() ? 1600 : 200);
  EXPECT_EQ(suite.mismatches, 0);
  EXPECT_GT(suite.preemptions, 0U);
  EXPECT_GT(suite.accepted, suite.ngram_accepted);
}

INSTANTIATE_TEST_SUITE_P(OnCpu, Heads, ::testing::Values("dflash2", "dspark", "lilicorr", "domino", "xpress"),
                         [](const auto& test) { return test.param; });

TEST(HeadOptions, RefuseWhatTheyCannotDo) {
  const auto ops = make_device("ref", {});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 64);
  const auto refuse = [&](const char* head, const DflashOptions& options, const char* words) {
    const HeadDrafter drafter(head);
    try {
      make_decoder(*model, {"dflash", drafter.folder(), options});
      ADD_FAILURE() << head << ": made";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refuse("dflash2", {.passes = 2}, "2 denoising passes asked for; this drafter chooses among candidates");
  refuse("lilicorr", {.passes = 2}, "2 denoising passes asked for; this drafter chooses among candidates");
  refuse("dspark", {.passes = 2}, "2 denoising passes asked for; this drafter chooses drafts one after the other");
  refuse("domino", {.passes = 2}, "2 denoising passes asked for; this drafter chooses drafts one after the other");
  refuse("xpress", {.passes = 2}, "2 denoising passes asked for; this drafter chooses all drafts again in rounds");
  refuse("dspark", {.branches = 4}, "4 branches asked for; this drafter chooses drafts one after the other: a chain");
}

// One block of a drafter with a confidence head, and what rows of it are worth verifying at given costs.
class RatedBlock {
 public:
  static constexpr int32_t kWidth = 8;

  explicit RatedBlock(float confidence, SamplingScheme scheme = SamplingScheme::kCoupled)
      : drafter_("dspark", confidence),
        proposer_(DflashDrafter::load(*model_, drafter_.folder()), *ops_, {.width = kWidth}) {
    KvLayout layout;
    proposer_.register_state(layout);
    kv_ = std::make_unique<KvMemory>(*ops_, layout, 1);
    proposer_.start({kWidth, 1, 1}, *kv_);
    slots_[0].params.temperature = 1;
    slots_[0].params.scheme = scheme;
    proposer_.admit(0, slots_[0], {});
    span.make_chain();
    span.ids[0] = 17;
    span.width = 4;
    span.most = span.draft_rows = kWidth;
    DeviceArray<int32_t> page(*ops_, 1);
    page.upload(std::vector<int32_t>{0});
    span.pages = page.device();
    proposer_.propose({&span, 1}, slots_);
  }

  // Rows that stay if each takes `row` tokens' worth of time.
  int32_t width(double row) const {
    RowBudget budget = {.trust = 1, .pace = 1, .row_key = 0, .times = {}};
    for (int32_t rows = 0; rows <= kWidth; ++rows) budget.times.push_back(row * rows);
    DraftRows rows = {span.width, {span.chances + 1, static_cast<size_t>(span.n_chances)}};
    RowSelector().select(budget, {&rows, 1});
    return rows.width;
  }

  ChainSpan span;

 private:
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
  std::unique_ptr<Model> model_ = Model::load(*ops_, models_folder() / "pebble-11m", 64);
  HeadDrafter drafter_;
  DflashProposer proposer_;
  std::unique_ptr<KvMemory> kv_;
  SlotTable slots_{1};
};

TEST(Confidence, DecidesHowManyDraftsAreVerified) {
  RatedBlock sure(5), unsure(-5), between(0.5F);
  EXPECT_EQ(sure.width(0.5), RatedBlock::kWidth);
  EXPECT_EQ(unsure.width(0.5), 1);
  const int32_t width = between.width(0.3);
  EXPECT_GT(width, 1);
  EXPECT_LT(width, RatedBlock::kWidth);
  const ChainSpan all = between.span;
  EXPECT_EQ(all.width, RatedBlock::kWidth);  // the planner asked for less: the head says how many
  ASSERT_EQ(all.n_chances, RatedBlock::kWidth - 1);
  for (int32_t k = 2; k <= all.n_chances; ++k) EXPECT_LT(all.chances[k], all.chances[k - 1]) << k;
  EXPECT_LT(all.chances[width], 0.3F);
  EXPECT_GT(all.chances[width - 1], 0.3F);
  between.span.keep_likeliest(width);
  EXPECT_EQ(between.span.width, width);
  for (int32_t k = 1; k < width; ++k) {
    EXPECT_EQ(between.span.ids[k], all.ids[k]) << k;
    EXPECT_EQ(between.span.parents[k], k - 1) << k;
  }
}

// Whether a draft is verified may not depend on what it is.
TEST(Confidence, SaysNothingWhereDraftsAreRejected) {
  const RatedBlock block(5, SamplingScheme::kRejection);
  EXPECT_EQ(block.span.n_chances, 0);
  EXPECT_EQ(block.span.width, 4);
}

}  // namespace
}  // namespace ashlar::testing
