// SPDX-License-Identifier: Apache-2.0
// What a drafter is trained on against what PyTorch computes, and against what the engine's drafter reads.

#include "train/capture/hidden_capture.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/copy_row.h"
#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"

namespace ashlar {
namespace {

using testing::DirectDecoder;

class HiddenCapturing : public ::testing::TestWithParam<const char*> {
 protected:
  HiddenCapturing()
      : ops_(make_device(GetParam(), {})), model_(Model::load(*ops_, testing::models_folder() / "pebble-11m", 2048)) {}

  /// As fp32, from the device.
  std::vector<float> values_of(Tensor rows) {
    const size_t n = static_cast<size_t>(rows.rows) * static_cast<size_t>(rows.cols);
    std::vector<std::byte> bytes(n * bytes_of(rows.dtype));
    ops_->download(static_cast<const std::byte*>(rows.data), bytes.data(), bytes.size());
    std::vector<float> values(n);
    copy_row({bytes.data(), 1, static_cast<int32_t>(n), static_cast<int64_t>(n), rows.dtype}, 0, values.data());
    return values;
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
};

TEST_P(HiddenCapturing, IsWhatPyTorchComputes) {
  const Json json = read_json_file(testing::data_folder() / "pebble-11m" / "goldens.json");
  const SafetensorsFile file(testing::data_folder() / "pebble-11m" / "goldens.safetensors");
  const auto ids = json["cases"][0]["prompt_ids"].get<std::vector<int32_t>>();
  const std::vector<float> golden = testing::floats(file, "case0.hidden_states");  // [layers + 1, rows, hidden]
  const std::vector<int32_t> rows = testing::ints(file, "case0.rows");
  const std::vector<int32_t> layers = {9, 1, 5};
  HiddenCapture capture(*model_, layers, 512);
  ASSERT_EQ(capture.width(), 768);
  const std::span<const int32_t> document = ids;
  const std::vector<float> found = values_of(capture.capture({&document, 1}).front());
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto row = static_cast<size_t>(rows[r]);
    for (size_t i = 0; i < layers.size(); ++i) {
      const float* expected = golden.data() + (static_cast<size_t>(layers[i] + 1) * rows.size() + r) * 256;
      // The target's weights and its KV cache are bf16 on the cpu device.
      EXPECT_LT(testing::relative_error(found.data() + row * 768 + i * 256, expected, 256), 2e-2) << row;
    }
  }
}

// What the head takes of a document that goes with others, and of one in several chunks. PyTorch's last hidden states
// are normed.
TEST_P(HiddenCapturing, FinalStatesAreWhatPyTorchComputes) {
  const Json json = read_json_file(testing::data_folder() / "pebble-11m" / "goldens.json");
  const SafetensorsFile file(testing::data_folder() / "pebble-11m" / "goldens.safetensors");
  const auto ids = json["cases"][0]["prompt_ids"].get<std::vector<int32_t>>();
  const std::vector<float> golden = testing::floats(file, "case0.hidden_states");
  const std::vector<int32_t> rows_there = testing::ints(file, "case0.rows");
  const float* last = golden.data() + golden.size() - rows_there.size() * 256;
  const std::vector<int32_t> layers = {1};
  const std::vector<std::span<const int32_t>> documents = {std::span(ids).first(3), ids};
  for (const int32_t rows : {HiddenCapture::kRows, 5}) {
    HiddenCapture capture(*model_, layers, 512, rows, true);
    const Tensor aux = capture.capture(documents)[1];
    ASSERT_EQ(capture.final_hidden().size(), 2U);
    EXPECT_EQ(aux.rows, static_cast<int32_t>(ids.size()));
    const std::vector<float> found = values_of(capture.final_hidden()[1]);
    ASSERT_EQ(found.size(), ids.size() * 256);
    for (size_t r = 0; r < rows_there.size(); ++r) {
      const auto row = static_cast<size_t>(rows_there[r]);
      EXPECT_LT(testing::relative_error(found.data() + row * 256, last + r * 256, 256), 2e-2) << row;
    }
    EXPECT_EQ(values_of(capture.final_hidden()[0]), std::vector<float>(found.begin(), found.begin() + 3 * 256));
  }
}

// Documents that go together, a long one in several chunks between them, and one whose rows have moved in the memory:
// the bits depend neither on the others nor on where chunks end.
// Invariant: row-invariance
TEST_P(HiddenCapturing, IsWhatTheDrafterReadsWhateverGoesTogether) {
  if (std::string(GetParam()) == "ref") GTEST_SKIP() << "hundreds of tokens take long there";
  const std::unique_ptr<DflashDrafter> drafter =
      DflashDrafter::load(*model_, testing::models_folder() / "pebble-11m-dflash");
  std::vector<int32_t> ids(300);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(100 + i * i % 7000);
  HiddenCapture capture(*model_, drafter->config().aux_layers, 300, 128);
  const std::span<const int32_t> all = ids;
  const std::vector<std::span<const int32_t>> documents = {all.subspan(7, 20), all.first(33), all, all.subspan(40, 2),
                                                           all.subspan(3, 90)};
  std::vector<std::vector<float>> found;
  for (const Tensor& rows : capture.capture(documents)) found.push_back(values_of(rows));
  ASSERT_EQ(found.size(), documents.size());
  for (size_t i = 0; i < documents.size(); ++i) {
    DirectDecoder decoder(*model_, drafter.get(), 300);
    decoder.target({documents[i].begin(), documents[i].end()}, 0, drafter->aux_layers());
    const std::vector<float> expected =
        values_of(decoder.aux_hidden().narrow(static_cast<int32_t>(documents[i].size())));
    EXPECT_EQ(std::memcmp(found[i].data(), expected.data(), expected.size() * sizeof(float)), 0) << "document " << i;
    EXPECT_EQ(values_of(capture.capture({&documents[i], 1}).front()), found[i]) << "document " << i;
  }
}

TEST_P(HiddenCapturing, RefusesLayersThatAreNotThere) {
  const std::vector<int32_t> layers = {1, 12};
  EXPECT_THROW(HiddenCapture(*model_, layers, 64), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, HiddenCapturing, ::testing::Values("cpu", "ref"));

}  // namespace
}  // namespace ashlar
