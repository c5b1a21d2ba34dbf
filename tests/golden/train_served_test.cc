// SPDX-License-Identifier: Apache-2.0
// What is trained is what is served: the trainer's loss on a block is that of the logits which the PyTorch reference of
// the served drafter (tools/goldens/drafter_reference.py) gives for the same weights, context and last token.

#include <gtest/gtest.h>

#include "base/bf16.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "io/weights/checkpoint.h"
#include "train/run/block_drafter.h"

namespace ashlar::testing {
namespace {

std::vector<float> stored_values(const StoredTensor& tensor) {
  std::vector<float> values;
  if (tensor.dtype == "F32") {
    values.resize(tensor.bytes / sizeof(float));
    std::memcpy(values.data(), tensor.data, tensor.bytes);
    return values;
  }
  std::vector<BFloat16> halves(tensor.bytes / sizeof(BFloat16));
  std::memcpy(halves.data(), tensor.data, tensor.bytes);
  for (const BFloat16 half : halves) values.push_back(to_float(half));
  return values;
}

class ServedDrafter : public ::testing::TestWithParam<std::string> {};

TEST_P(ServedDrafter, LossIsThatOfItsLogits) {
  const SeededCheckpoint folder(data_folder() / "drafters" / GetParam());
  const SeededCheckpoint target_folder(data_folder() / "families" / "qwen3");
  const Checkpoint target(target_folder.folder());
  const Checkpoint drafter(folder.folder());
  const SafetensorsFile goldens(folder.folder() / "goldens.safetensors");
  const TrainShape shape = train_shape(read_dflash_config(folder.folder()));
  const std::vector<float> embedding = stored_values(*target.tensors().at("model.embed_tokens.weight"));
  const std::vector<float> head = stored_values(*target.tensors().at("lm_head.weight"));

  const std::unique_ptr<TrainOps> ops = make_train_ops("ref", {});
  TrainSettings settings;
  settings.gamma = 2;
  settings.selector_weight = 0;  // whose loss is of other logits
  DrafterTrainer trainer(*ops, shape, settings, embedding, head);
  ASSERT_EQ(trainer.parameters().size(), drafter.tensors().size());
  for (const TrainParameter& p : trainer.parameters()) {
    const StoredTensor& tensor = *drafter.tensors().at(p.name);
    ASSERT_EQ(p.shape, tensor.shape) << p.name;
    const std::vector<float> values = stored_values(tensor);
    std::copy(values.begin(), values.end(), p.values.begin());
  }

  const int32_t start = ints(goldens, "call1.start")[0];
  std::vector<int32_t> ids = ints(goldens, "call1.new_ids");
  ASSERT_EQ(static_cast<int32_t>(ids.size()), start);
  std::vector<float> aux_hidden = floats(goldens, "call1.features");
  const std::vector<float> logits = floats(goldens, "call1.draft_logits");
  ids.push_back(ints(goldens, "call1.anchor")[0]);
  double expected = 0;
  double weights = 0;
  for (int32_t slot = 1; slot < shape.block; ++slot) {
    const int32_t label = (17 * slot + 5) % shape.vocab;
    ids.push_back(label);
    const float* row = logits.data() + int64_t{slot} * shape.vocab;
    double sum = 0;
    for (int32_t id = 0; id < shape.vocab; ++id) sum += std::exp(static_cast<double>(row[id]));
    const double weight = std::exp(-(slot - 1) / settings.gamma);
    expected += weight * (std::log(sum) - row[label]);
    weights += weight;
  }
  // No row of the block may see hidden states from its beginning on.
  aux_hidden.resize(ids.size() * static_cast<size_t>(shape.aux_width), 1e4F);
  const std::vector<uint8_t> supervised(ids.size(), 1);
  const TrainDocument document = {
      ids, supervised, {aux_hidden.data(), static_cast<int32_t>(ids.size()), shape.aux_width, shape.aux_width}};
  const DrafterTrainer::Anchors anchors = {start};
  const TrainReport report = trainer.evaluate({&document, 1}, {&anchors, 1});
  EXPECT_EQ(report.labels, shape.block - 1);
  EXPECT_NEAR(report.loss, expected / weights, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, ServedDrafter,
                         ::testing::Values("dflash_full", "dflash_block_in_config", "dflash_fitted",
                                           "dflash2_projector"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ashlar::testing
