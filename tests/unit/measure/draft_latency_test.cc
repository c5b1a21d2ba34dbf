// SPDX-License-Identifier: Apache-2.0
#include "measure/drafting/draft_latency.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "decode/drafters.h"
#include "device/device.h"
#include "device/forwarded_ops.h"
#include "io/mapped_file.h"
#include "measure/engine/step_bench.h"
#include "measure/synth/synth.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

/// Notes how many rows each pass over a model or drafter has: every one begins with an embedding of its rows, as wide
/// as the model is.
class PassRows final : public ForwardedOps {
 public:
  using ForwardedOps::ForwardedOps;
  std::vector<int32_t> rows;
  int32_t width = 0;
  int32_t waits = 0;  // for what the host has to know before it can ask for more

  void download(const std::byte* from, void* to, size_t bytes) override {
    ++waits;
    ForwardedOps::download(from, to, bytes);
  }
  void choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) override {
    ++waits;
    ForwardedOps::choose(logits, requests, choices);
  }

  void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) override {
    if (out.cols == width) rows.push_back(out.rows);
    ForwardedOps::embed(table, ids, scale, out);
  }
};

/// A small model with a layer that drafts, and a drafter of each kind that is made.
class DraftLatencyTest : public ::testing::Test {
 protected:
  DraftLatencyTest() {
    Json config = read_json_file(std::filesystem::path(ASHLAR_TEST_DATA) / "families" / "qwen3_5_text" / "config.json");
    config["vocab_size"] = 300;
    SynthOptions options;
    options.shape = folder_.write("config.json", config.dump());
    options.folder = folder_ / "made";
    options.drafters = {"dflash", "dflash2", "eagle3"};
    made_ = synthesize(options);
    model_ = Model::load(counting_, made_.model.folder);
    counting_.width = model_->config().stack.hidden;
    subject_.ops = &counting_;
    subject_.model = model_.get();
    subject_.prompts = {std::vector<int32_t>(40, 65)};
  }

  TempFolder folder_;
  SynthResult made_;
  std::unique_ptr<Ops> ops_ = make_device("cpu", {});
  PassRows counting_{*ops_};
  std::unique_ptr<Model> model_;
  BenchSubject subject_;
};

TEST_F(DraftLatencyTest, HasEveryBlockThatADrafterFills) {
  Json words = read_json_file(made_.drafters[0].folder / "config.json");
  words["block_size"] = 8;
  folder_.write("made-dflash/config.json", words.dump());
  DraftLatencyOptions options;
  options.repeat = 2;
  options.context = 40;
  const DraftLatencies found = run_draft_latency(
      subject_, {{"short", made_.drafters[0].folder}, {"chain", made_.drafters[2].folder}, {"mtp", made_.model.folder}},
      options);
  EXPECT_EQ(found.rounds, 2);
  EXPECT_GT(found.plain, 0);
  ASSERT_EQ(found.drafters.size(), 3u);
  EXPECT_EQ(found.drafters[0].blocks.size(), 4u) << "of up to 8 rows";
  EXPECT_EQ(found.drafters[1].blocks.size(), 5u);
  EXPECT_EQ(found.drafters[2].blocks.size(), 5u);
  for (const DraftLatency& drafter : found.drafters) {
    for (const DraftLatency::Block& block : drafter.blocks) EXPECT_GT(block.draft, 0) << drafter.name;
  }
  const Json json = draft_latency_json(found)["drafting"][0]["blocks"];
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[3]["drafts"], 7);
  const std::string text = draft_latency_text(found);
  const std::string line =
      text.substr(text.find("  short, ms"), text.find("  short, plain") - text.find("  short, ms"));
  EXPECT_EQ(std::ranges::count(line, '-'), 1) << "not of 15 drafts\n" << text;
  options.context = model_->max_positions();
  EXPECT_THROW(run_draft_latency(subject_, {}, options), Error);
}

// What is compared: one pass over all rows of a block, or a pass of one row for each draft. The verify of as many rows
// follows, then a pass over those that stay where the drafter reads tokens. The host waits for each draft of a chain.
TEST_F(DraftLatencyTest, ABlockIsOnePassAndAChainOneForEachDraft) {
  std::vector<std::filesystem::path> drafters = {made_.model.folder};
  for (const SynthResult::Made& drafter : made_.drafters) drafters.push_back(drafter.folder);
  for (const std::filesystem::path& drafter : drafters) {
    DecoderSpec spec;
    spec.drafter = drafter;
    spec.method = method_of_drafter(drafter);
    spec.dflash.width = 16;
    spec.dflash.branches = 0;
    StepBench bench(counting_, make_decoder(*model_, spec), subject_.prompts[0], 64, 16, 64);
    for (const int32_t rows : {2, 5, 16, 3}) {
      SCOPED_TRACE(drafter.string() + " " + std::to_string(rows));
      bench.narrow(rows);
      bench.warm_up();
      counting_.rows.clear();
      counting_.waits = 0;
      bench.step();
      const bool in_turn = drafts_one_by_one(spec.method);
      std::vector<int32_t> expected =
          in_turn ? std::vector<int32_t>(static_cast<size_t>(rows - 1), 1) : std::vector<int32_t>{rows};
      expected.push_back(rows);
      ASSERT_GE(counting_.rows.size(), expected.size());
      const std::vector<int32_t> context(counting_.rows.begin() + static_cast<std::ptrdiff_t>(expected.size()),
                                         counting_.rows.end());
      counting_.rows.resize(expected.size());
      EXPECT_EQ(counting_.rows, expected);
      EXPECT_EQ(context.size(), in_turn ? 1u : 0u);
      EXPECT_EQ(counting_.waits, (in_turn ? rows - 1 : 1) + 1) << "for drafts, then for tokens";
    }
  }
}

}  // namespace
}  // namespace ashlar
