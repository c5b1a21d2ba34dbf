// SPDX-License-Identifier: Apache-2.0
// Drafts that a head chooses in rounds: blocks together, without asking anew about what cannot change, against each
// block by itself in all rounds.

#include <gtest/gtest.h>

#include "decode/propose/dflash.h"
#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

class RefinedDrafts : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Devices, RefinedDrafts, ::testing::Values("ref", "cpu"),
                         [](const auto& test) { return test.param; });

TEST_P(RefinedDrafts, AreThoseOfAllRounds) {
  const SeededCheckpoint target(data_folder() / "families" / "qwen3");
  const SeededCheckpoint folder(data_folder() / "drafters" / "speculators_xpress");
  const auto ops = make_device(GetParam(), {.threads = 2, .isa = {}});
  const auto model = Model::load(*ops, target.folder(), 64);
  const auto drafter = DflashDrafter::load(*model, folder.folder());
  DirectDecoder direct(*model, drafter.get(), 64);
  constexpr int32_t kBlocks = 6, kWidth = 6;
  DflashProposer proposer(DflashDrafter::load(*model, folder.folder()), *ops, {.width = kWidth});
  EXPECT_TRUE(proposer.fills_whole_blocks());
  KvLayout layout;
  proposer.register_state(layout);
  const KvMemory kv(*ops, layout, kBlocks);
  proposer.start({kBlocks * kWidth, kBlocks, kBlocks}, kv);
  SlotTable slots(kBlocks);
  DeviceArray<int32_t> pages(*ops, kBlocks);
  pages.upload(std::vector<int32_t>{0, 1, 2, 3, 4, 5});
  std::vector<ChainSpan> spans(kBlocks);
  for (int32_t i = 0; i < kBlocks; ++i) {
    ChainSpan& span = spans[static_cast<size_t>(i)];
    span.make_chain();
    span.slot = i;
    span.ids[0] = 17 + 11 * i;
    span.width = span.most = kWidth - i % 3;  // some with fewer drafts than the block has, whose rows it still reads
    span.draft_rows = kWidth;
    span.pages = pages.device() + i;
    slots[i].token_before = 0;  // which a decoder takes that has seen nothing
    proposer.admit(i, slots[i], {});
  }
  proposer.propose(spans, slots);
  const auto drafts_of = [](const ChainSpan& span) {
    return std::vector<int32_t>(span.ids + 1, span.ids + span.width);
  };
  const auto expected_of = [&](const ChainSpan& span) {
    std::vector<int32_t> all = direct.draft(span.ids[0], 0, kWidth);
    all.resize(static_cast<size_t>(span.width) - 1);
    return all;
  };
  for (const ChainSpan& span : spans) EXPECT_EQ(drafts_of(span), expected_of(span)) << span.slot;
  // The token before the last one counts.
  const std::vector<int32_t> first = drafts_of(spans[0]);
  bool changed = false;
  for (int32_t token = 1; token < 20 && !changed; ++token) {
    slots[0].token_before = token;
    proposer.propose({spans.data(), 1}, slots);
    changed = drafts_of(spans[0]) != first;
  }
  EXPECT_TRUE(changed);
}

}  // namespace
}  // namespace ashlar::testing
