// What a drafter is trained on against what PyTorch computes, and against what the engine's drafter reads.

#include "train/capture/hidden_capture.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"

namespace ashlar {
namespace {

using testing::DirectDecoder;

class HiddenCapturing : public ::testing::TestWithParam<const char*> {
 protected:
  HiddenCapturing()
      : ops_(make_device(GetParam(), {})), model_(Model::load(*ops_, testing::models_folder() / "pebble-11m", 512)) {}

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
};

TEST_P(HiddenCapturing, IsWhatPyTorchComputes) {
  const Json json = read_json_file(testing::data_folder() / "pebble-11m" / "goldens.json");
  const SafetensorsFile file(testing::data_folder() / "pebble-11m" / "goldens.safetensors");
  const auto ids = json["cases"][0]["prompt_ids"].get<std::vector<int32_t>>();
  const std::vector<float> golden = testing::floats(file, "case0.hidden_states");  // [layers + 1, n, hidden]
  const std::vector<int32_t> layers = {9, 1, 5};
  HiddenCapture capture(*model_, layers, 512);
  ASSERT_EQ(capture.width(), 768);
  std::vector<float> found(ids.size() * 768);
  capture.capture(ids, found);
  for (size_t row = 0; row < ids.size(); ++row) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const float* expected = golden.data() + (static_cast<size_t>(layers[i] + 1) * ids.size() + row) * 256;
      // The target's weights and its KV cache are bf16 on the cpu device.
      EXPECT_LT(testing::relative_error(found.data() + row * 768 + i * 256, expected, 256), 2e-2) << row;
    }
  }
}

// A document of several chunks, whose bits do not depend on where they end, after another one in the same memory.
TEST_P(HiddenCapturing, IsWhatTheDrafterReads) {
  if (std::string(GetParam()) == "ref") GTEST_SKIP() << "300 tokens take long there";
  const std::unique_ptr<DflashDrafter> drafter =
      DflashDrafter::load(*model_, testing::models_folder() / "pebble-11m-dflash");
  std::vector<int32_t> ids(300);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(100 + i * i % 7000);
  DirectDecoder decoder(*model_, drafter.get(), 512);
  decoder.target(ids, 0, drafter->aux_layers());
  const Tensor expected = decoder.aux_hidden();
  HiddenCapture capture(*model_, drafter->config().aux_layers, 512);
  const auto width = static_cast<size_t>(capture.width());
  std::vector<float> found(ids.size() * width), other(20 * width);
  capture.capture(std::span(ids).subspan(7, 20), other);
  capture.capture(ids, found);
  for (int32_t row = 0; row < 300; ++row) {
    ASSERT_EQ(std::memcmp(found.data() + static_cast<size_t>(row) * width, expected.row(row), width * sizeof(float)), 0)
        << "row " << row;
  }
}

TEST_P(HiddenCapturing, RefusesLayersThatAreNotThere) {
  const std::vector<int32_t> layers = {1, 12};
  EXPECT_THROW(HiddenCapture(*model_, layers, 64), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, HiddenCapturing, ::testing::Values("cpu", "ref"));

}  // namespace
}  // namespace ashlar
