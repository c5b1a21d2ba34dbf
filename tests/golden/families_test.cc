// SPDX-License-Identifier: Apache-2.0
// Every folder of tests/data/families against Hugging Face transformers in float32.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

// Float32 sums in another order, or values that are kept as halves; a wrong formula is off by far more.
constexpr double kTolerance = 1e-5, kToleranceOfHalves = 1e-3;

class Families : public ::testing::TestWithParam<std::string> {
 protected:
  Families()
      : checkpoint_(data_folder() / "families" / GetParam()),
        ops_(make_device("ref", {})),
        model_(Model::load(*ops_, checkpoint_.folder())),
        tensors_(checkpoint_.folder() / "goldens.safetensors"),
        prompt_(ints(tensors_, "input_ids")) {
    const auto limit = std::min(model_->max_positions(), static_cast<int32_t>(prompt_.size()) + 32);
    decoder_ = std::make_unique<DirectDecoder>(*model_, nullptr, limit);
  }

  SeededCheckpoint checkpoint_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  SafetensorsFile tensors_;
  void expect_rows(Tensor found, const float* expected, const std::string& what) {
    const double tolerance = tensors_.tensors().at("logits").dtype == "F16" ? kToleranceOfHalves : kTolerance;
    for (int32_t r = 0; r < found.rows; ++r) {
      ASSERT_LT(relative_error(found.row(r), expected + int64_t{r} * found.cols, found.cols), tolerance)
          << what << ", row " << r;
    }
  }

  /// Those of every second position, the last one among them, by position.
  std::map<int32_t, const float*> golden_logits(int32_t columns) {
    golden_ = floats(tensors_, "logits");
    const auto n = static_cast<int32_t>(prompt_.size());
    std::map<int32_t, const float*> rows;
    for (int32_t i = (n - 1) % 2; i < n; i += 2) rows[i] = golden_.data() + int64_t{i / 2} * columns;
    if (golden_.size() != rows.size() * static_cast<size_t>(columns))
      throw std::runtime_error("rows of logits are missing");
    return rows;
  }

  std::vector<int32_t> prompt_;
  std::unique_ptr<DirectDecoder> decoder_;
  std::vector<float> golden_;
};

TEST_P(Families, HiddenStatesOfEveryLayerAgree) {
  const StackConfig& stack = model_->config().stack;
  const auto n = static_cast<int32_t>(prompt_.size());
  const std::vector<float> golden = floats(tensors_, "hidden_states");  // [layers, held, hidden]: of the last rows
  const auto held = static_cast<int32_t>(tensors_.tensors().at("hidden_states").shape.at(1));
  ASSERT_EQ(held, std::min(12, n));
  const int64_t layer_size = int64_t{held} * stack.hidden;
  ASSERT_EQ(static_cast<int64_t>(golden.size()), stack.n_layers * layer_size);
  // The last entry is after the final norm; the plain residual stream of the last layer is not held.
  for (int32_t layer = 0; layer + 1 < stack.n_layers; ++layer) {
    const std::vector<AuxLayer> layers = {{layer, 0}};
    decoder_->target(prompt_, 0, layers);
    expect_rows(decoder_->aux_hidden().part(n - held, held).columns(0, stack.hidden),
                golden.data() + layer * layer_size, "layer " + std::to_string(layer));
  }
  expect_rows(decoder_->hidden(prompt_, 0).part(n - held, held), golden.data() + (stack.n_layers - 1) * layer_size,
              "final norm");
}

TEST_P(Families, LogitsAgree) {
  const Tensor logits = decoder_->target(prompt_, 0, {});
  ASSERT_EQ(logits.rows, static_cast<int32_t>(prompt_.size()));
  for (const auto& [i, row] : golden_logits(logits.cols)) {
    expect_rows(logits.part(i, 1), row, "position " + std::to_string(i));
  }
}

TEST_P(Families, OneTokenAtATimeGivesTheSameLogits) {
  std::map<int32_t, const float*> golden;
  for (int32_t i = 0; i < static_cast<int32_t>(prompt_.size()); ++i) {
    const Tensor logits = decoder_->target({prompt_[static_cast<size_t>(i)]}, i, {});
    if (i == 0) golden = golden_logits(logits.cols);
    if (golden.contains(i)) expect_rows(logits, golden[i], "position " + std::to_string(i));
  }
}

TEST_P(Families, GreedyContinuationIsExact) {
  const std::vector<int32_t> golden = ints(tensors_, "greedy_ids");
  EXPECT_EQ(decoder_->greedy(prompt_, static_cast<int32_t>(golden.size()), {}), golden);
}

// Products round to bf16 there. A choice between experts that are nearly equal may fall otherwise, in a few rows.
TEST_P(Families, LogitsOnTheCpuAreNear) {
  const auto cpu = make_device("cpu", {});
  const auto model = Model::load(*cpu, checkpoint_.folder());
  DirectDecoder decoder(*model, nullptr, static_cast<int32_t>(prompt_.size()) + 1);
  const Tensor logits = decoder.target(prompt_, 0, {});
  ASSERT_EQ(logits.rows, static_cast<int32_t>(prompt_.size()));
  std::vector<double> errors;
  for (const auto& [i, row] : golden_logits(logits.cols)) {
    errors.push_back(relative_error(logits.row(i), row, logits.cols));
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.02);
  EXPECT_LT(errors[errors.size() * 3 / 4], 0.04);
}

INSTANTIATE_TEST_SUITE_P(OnRef, Families, ::testing::ValuesIn(subfolders(data_folder() / "families")),
                         [](const auto& test) { return test.param; });

TEST(FamilyGoldens, AreAllThere) { EXPECT_GE(subfolders(data_folder() / "families").size(), 40u); }

}  // namespace
}  // namespace ashlar::testing
