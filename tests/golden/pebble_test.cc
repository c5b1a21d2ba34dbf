// SPDX-License-Identifier: Apache-2.0
// The bundled model and drafter against values computed by PyTorch in float32.

#include <gtest/gtest.h>

#include <cstdlib>

#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kMaxTokens = 320;

class PebbleOnRef : public ::testing::Test {
 protected:
  PebbleOnRef()
      : ops_(make_device("ref", {})),
        model_(Model::load(*ops_, models_folder() / "pebble-11m", kMaxTokens)),
        drafter_(DflashDrafter::load(*model_, models_folder() / "pebble-11m-dflash")),
        json_(read_json_file(data_folder() / "pebble-11m" / "goldens.json")),
        tensors_(data_folder() / "pebble-11m" / "goldens.safetensors"),
        decoder_(*model_, drafter_.get(), kMaxTokens) {}

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<DflashDrafter> drafter_;
  Json json_;
  SafetensorsFile tensors_;
  DirectDecoder decoder_;
};

TEST_F(PebbleOnRef, HiddenStatesOfEveryLayerAgree) {
  const auto prompt = json_["cases"][0]["prompt_ids"].get<std::vector<int32_t>>();
  const std::vector<float> golden = floats(tensors_, "case0.hidden_states");  // [layers + 1, rows, hidden]
  const std::vector<int32_t> rows = ints(tensors_, "case0.rows");             // of the prompt, that are there
  ASSERT_EQ(rows.size(), 3u);
  const int32_t hidden = model_->config().stack.hidden;
  // Layer l's output is entry l + 1; the last entry is final-normed in this convention and checked through the logits.
  for (int32_t layer = 0; layer + 1 < model_->config().stack.n_layers; ++layer) {
    const std::vector<AuxLayer> layers = {{layer, 0}};
    decoder_.target(prompt, 0, layers);
    for (size_t i = 0; i < rows.size(); ++i) {
      const float* expected = golden.data() + ((layer + 1) * rows.size() + i) * hidden;
      EXPECT_LT(relative_error(decoder_.aux_hidden().row(rows[i]), expected, hidden), 1e-3)
          << "layer " << layer << " row " << rows[i];
    }
  }
}

TEST_F(PebbleOnRef, LogitsAgree) {
  const auto prompt = json_["cases"][0]["prompt_ids"].get<std::vector<int32_t>>();
  const std::vector<float> golden = floats(tensors_, "case0.logits");
  const std::vector<int32_t> rows = ints(tensors_, "case0.rows");
  const Tensor logits = decoder_.target(prompt, 0, {});
  ASSERT_EQ(rows.size(), 3u);
  ASSERT_EQ(golden.size(), rows.size() * static_cast<size_t>(logits.cols));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_LT(relative_error(logits.row(rows[i]), golden.data() + i * static_cast<size_t>(logits.cols), logits.cols),
              1e-3)
        << "row " << rows[i];
  }
}

TEST_F(PebbleOnRef, DrafterAgrees) {
  const Json& golden = json_["cases"][0];
  const auto prompt = golden["prompt_ids"].get<std::vector<int32_t>>();
  const auto last_token = golden["greedy_ids"][0].get<int32_t>();
  const auto n = static_cast<int32_t>(prompt.size());
  decoder_.target(prompt, 0, drafter_->aux_layers());
  const Tensor features = drafter_->features(decoder_.aux_hidden().narrow(n));
  const std::vector<float> expected_features = floats(tensors_, "case0.context_features");
  for (int32_t r = 0; r < n; ++r) {
    EXPECT_LT(relative_error(features.row(r), expected_features.data() + int64_t{r} * features.cols, features.cols),
              1e-3);
  }
  decoder_.write_context(prompt, 0);
  const Tensor hidden = decoder_.draft_hidden(last_token, n, 16);
  const std::vector<float> expected = floats(tensors_, "case0.draft_hidden");
  for (int32_t r = 0; r < hidden.rows; ++r) {
    EXPECT_LT(relative_error(hidden.row(r), expected.data() + int64_t{r} * hidden.cols, hidden.cols), 1e-3)
        << "slot " << r;
  }
  EXPECT_EQ(decoder_.draft(last_token, n, 16), golden["first_draft"].get<std::vector<int32_t>>());
}

TEST_F(PebbleOnRef, GreedyAnswersAndAcceptLengthsAreExact) {
  int32_t index = 0;
  int32_t with_logits = 0;
  int32_t long_ones = 0;
  for (const Json& golden : json_["cases"]) {
    SCOPED_TRACE("case " + std::to_string(index++));
    const auto prompt = golden["prompt_ids"].get<std::vector<int32_t>>();
    const auto expected = golden["greedy_ids"].get<std::vector<int32_t>>();
    const auto limit = static_cast<int32_t>(expected.size());
    // Of the three that take half of the time one is left in the short tier; the cpu device answers all.
    const bool has_logits = tensors_.tensors().contains("case" + std::to_string(index - 1) + ".last_logits");
    if (limit > 100 && ++long_ones > 1 && !has_logits && std::getenv("ASHLAR_LONG_TESTS") == nullptr) continue;
    const DirectRun run = decoder_.speculate(prompt, limit, model_->config().stop_ids, 16);
    EXPECT_EQ(run.tokens, expected);
    // The last step may run past the end of the answer; what it accepts there belongs to no answer, so both are cut to
    // the answer.
    const auto cut = [&](std::vector<int32_t> lengths) {
      int32_t left = limit - 1;
      for (int32_t& length : lengths) left -= length = std::min(length, left);
      return lengths;
    };
    EXPECT_EQ(cut(run.accept_lengths), cut(golden["accept_lengths"].get<std::vector<int32_t>>()));
    const std::string name = "case" + std::to_string(index - 1) + ".last_logits";
    if (!has_logits) continue;  // one has them; LogitsAgree compares rows of the first
    with_logits++;
    const std::vector<float> logits = floats(tensors_, name);
    const Tensor last = decoder_.target(prompt, 0, {});
    EXPECT_LT(relative_error(last.row(last.rows - 1), logits.data(), logits.size()), 1e-3);
  }
  EXPECT_EQ(with_logits, 1);
}

}  // namespace
}  // namespace ashlar::testing
