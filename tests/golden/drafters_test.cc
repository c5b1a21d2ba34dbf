// Every folder of tests/data/drafters against the PyTorch reference of tools/goldens/drafter_reference.py.

#include <gtest/gtest.h>

#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

constexpr double kTolerance = 1e-5;
constexpr int32_t kMaxTokens = 96;

class Drafters : public ::testing::TestWithParam<std::string> {
 protected:
  explicit Drafters(const std::string& device = "ref")
      : checkpoint_(data_folder() / "drafters" / GetParam()),
        json_(read_json_file(checkpoint_.folder() / "goldens.json")),
        target_(data_folder() / json_["target"].get<std::string>()),
        tensors_(checkpoint_.folder() / "goldens.safetensors"),
        ops_(make_device(device, {})),
        model_(Model::load(*ops_, target_.folder(), kMaxTokens)),
        drafter_(DflashDrafter::load(*model_, checkpoint_.folder())),
        decoder_(*model_, drafter_.get(), kMaxTokens),
        prompt_(ints(tensors_, "prompt_ids")) {}

  void expect_tensor(Tensor found, const std::string& name) {
    const std::vector<float> golden = floats(tensors_, name);
    ASSERT_GE(golden.size(), static_cast<size_t>(found.rows) * found.cols) << name;
    for (int32_t r = 0; r < found.rows; ++r) {
      ASSERT_LT(relative_error(found.row(r), golden.data() + int64_t{r} * found.cols, found.cols), kTolerance)
          << name << ", row " << r;
    }
  }

  // Rows of a block without those that stand for nothing, as the goldens count them.
  int32_t block_rows() const { return json_["block_size"].get<int32_t>(); }

  void check_call(const std::string& call) {
    SCOPED_TRACE(call);
    const std::vector<int32_t> ids = ints(tensors_, call + ".new_ids");
    const int32_t start = ints(tensors_, call + ".start")[0];
    const int32_t last_token = ints(tensors_, call + ".anchor")[0];
    const auto n = static_cast<int32_t>(ids.size());
    decoder_.target(ids, start - n, drafter_->aux_layers());
    expect_tensor(decoder_.aux_hidden().narrow(n), call + ".features");
    expect_tensor(drafter_->features(decoder_.aux_hidden().narrow(n)), call + ".context");
    decoder_.write_context(ids, start - n);
    const Tensor hidden = decoder_.draft_hidden(last_token, start, block_rows());
    std::vector<float> golden = floats(tensors_, call + ".draft_hidden");
    ASSERT_EQ(golden.size(), static_cast<size_t>(hidden.rows) * hidden.cols);
    for (float& value : golden) value *= drafter_->config().output_multiplier;  // folded into the norm here
    for (int32_t r = 0; r < hidden.rows; ++r) {
      EXPECT_LT(relative_error(hidden.row(r), golden.data() + int64_t{r} * hidden.cols, hidden.cols), kTolerance)
          << "hidden, row " << r;
    }
    expect_tensor(decoder_.draft_logits(hidden), call + ".draft_logits");
    if (drafter_->selector() != nullptr) check_edges(call, last_token, hidden);
    EXPECT_EQ(decoder_.draft(last_token, start, drafter_->config().max_width()), ints(tensors_, call + ".drafted_ids"));
    if (drafter_->confidence() != nullptr) check_confidence(call, last_token, hidden);
    if (drafter_->markov() == nullptr) return;
    const int32_t first = drafter_->config().sample_from_anchor ? 0 : 1;  // draft() left what it chose from
    expect_tensor(decoder_.last_logits(hidden.rows).skip(first), call + ".logits_in_turn");
  }

  // What it thinks of the drafts that draft() gives.
  void check_confidence(const std::string& call, int32_t last_token, Tensor all_hidden) {
    const Tensor hidden = all_hidden.skip(drafter_->config().sample_from_anchor ? 0 : 1);
    std::vector<int32_t> before = ints(tensors_, call + ".drafted_ids");
    before.insert(before.begin(), last_token);
    before.pop_back();
    drafter_->confidence()->reserve(*ops_, hidden.rows);
    const std::vector<float> golden = floats(tensors_, call + ".confidences");
    const std::span<const float> chances =
        drafter_->confidence()->chances(*ops_, hidden, before, drafter_->markov()->codes());
    ASSERT_EQ(chances.size(), golden.size());
    for (size_t i = 0; i < golden.size(); ++i) EXPECT_NEAR(chances[i], golden[i], kTolerance) << i;
  }

  // Candidates in their order, and what each scores after each of the slot before.
  void check_edges(const std::string& call, int32_t last_token, Tensor hidden) {
    const int32_t first = drafter_->config().sample_from_anchor ? 0 : 1, rows = hidden.rows - first;
    const SelectedEdges edges =
        decoder_.select(hidden.skip(first), decoder_.draft_logits(hidden).skip(first), last_token);
    EXPECT_EQ(std::vector<int32_t>(edges.ids.begin(), edges.ids.end()), ints(tensors_, call + ".candidates"));
    const std::vector<float> golden = floats(tensors_, call + ".edges");
    ASSERT_EQ(golden.size(), edges.scores.size());
    for (int32_t row = 0; row < rows; ++row) {
      for (int32_t before = 0; before < (row == 0 ? 1 : edges.n); ++before) {
        const float* const expected = golden.data() + int64_t{row * edges.n + before} * edges.n;
        EXPECT_LT(relative_error(edges.after(row, before), expected, edges.n), kTolerance) << row << " " << before;
      }
    }
  }

  SeededCheckpoint checkpoint_;
  Json json_;
  SeededCheckpoint target_;
  SafetensorsFile tensors_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<DflashDrafter> drafter_;
  DirectDecoder decoder_;
  std::vector<int32_t> prompt_;
};

// The second call writes into a cache that the first has filled.
TEST_P(Drafters, CallsAgree) {
  EXPECT_EQ(drafter_->config().max_width() - 1, json_["drafts_per_call"].get<int32_t>());
  check_call("call1");
  check_call("call2");
}

TEST_P(Drafters, RunIsExact) {
  const std::vector<int32_t> expected = ints(tensors_, "run.output_ids");
  const auto limit = static_cast<int32_t>(expected.size());
  const DirectRun run = decoder_.speculate(prompt_, limit, {}, drafter_->config().max_width());
  EXPECT_EQ(run.tokens, expected);
  EXPECT_EQ(run.accept_lengths, ints(tensors_, "run.accept_lengths"));
  EXPECT_EQ(run.drafted_ids, ints(tensors_, "run.drafted_ids"));
  EXPECT_EQ(decoder_.greedy(prompt_, limit, {}), expected);
}

INSTANTIATE_TEST_SUITE_P(OnRef, Drafters, ::testing::ValuesIn(subfolders(data_folder() / "drafters")),
                         [](const auto& test) { return test.param; });

class DraftersOnCpu : public Drafters {
 protected:
  DraftersOnCpu() : Drafters("cpu") {}
};

// In 8 bits where the machine gains by that: drafts are near the reference's, and decide nothing.
TEST_P(DraftersOnCpu, RunIsThatOfPlainDecoding) {
  const std::vector<int32_t> ids = ints(tensors_, "call1.new_ids");
  const int32_t start = ints(tensors_, "call1.start")[0];
  decoder_.target(ids, start - static_cast<int32_t>(ids.size()), drafter_->aux_layers());
  decoder_.write_context(ids, start - static_cast<int32_t>(ids.size()));
  const Tensor logits =
      decoder_.draft_logits(decoder_.draft_hidden(ints(tensors_, "call1.anchor")[0], start, block_rows()));
  const std::vector<float> golden = floats(tensors_, "call1.draft_logits");
  for (int32_t r = 0; r < logits.rows; ++r) {
    EXPECT_LT(relative_error(logits.row(r), golden.data() + int64_t{r} * logits.cols, logits.cols), 0.1) << r;
  }
  const auto limit = static_cast<int32_t>(ints(tensors_, "run.output_ids").size());
  const DirectRun run = decoder_.speculate(prompt_, limit, {}, drafter_->config().max_width());
  EXPECT_EQ(run.tokens, decoder_.greedy(prompt_, limit, {}));
}

INSTANTIATE_TEST_SUITE_P(OnCpu, DraftersOnCpu, ::testing::ValuesIn(subfolders(data_folder() / "drafters")),
                         [](const auto& test) { return test.param; });

TEST(DrafterGoldens, AreAllThere) { EXPECT_GE(subfolders(data_folder() / "drafters").size(), 14u); }

}  // namespace
}  // namespace ashlar::testing
