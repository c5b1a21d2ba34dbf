// SPDX-License-Identifier: Apache-2.0
// Every folder of tests/data/quantised: its matrices to the bit, and its logits, by Python.

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "io/json.h"
#include "io/weights/checkpoint.h"

namespace ashlar::testing {
namespace {

std::vector<float> decoded(const StoredTensor& tensor) {
  const WeightPart part(tensor.name, *tensor.scaled);
  std::vector<float> values(static_cast<size_t>(part.rows * part.cols));
  decode_rows(part, 0, part.rows, values.data());
  return values;
}

class QuantisedFolders : public ::testing::TestWithParam<std::string> {
 protected:
  /// The largest error of a row of logits, on a device.
  double logits_error(const std::string& device, const DeviceOptions& options) const {
    const auto ops = make_device(device, options);
    const auto model = Model::load(*ops, checkpoint_.folder());
    const SafetensorsFile goldens(checkpoint_.folder() / "goldens.safetensors");
    const std::vector<int32_t> ids = ints(goldens, "input_ids");
    const std::vector<float> expected = floats(goldens, "logits");
    DirectDecoder decoder(*model, nullptr, static_cast<int32_t>(ids.size()) + 32);
    const Tensor logits = decoder.target(ids, 0, {});
    double worst = 0;
    for (int32_t r = 0; r < logits.rows; ++r) {
      const float* row = expected.data() + int64_t{r} * logits.cols;
      worst = std::max(worst, relative_error(static_cast<const float*>(logits.row(r)), row, logits.cols));
    }
    return worst;
  }

  SeededCheckpoint checkpoint_{data_folder() / "quantised" / GetParam()};
};

TEST_P(QuantisedFolders, MeanWhatTheirPublishersSay) {
  const Checkpoint checkpoint(checkpoint_.folder());
  EXPECT_NE(checkpoint.quantisation(), "");
  const Json expected = read_json_file(checkpoint_.folder() / "dequantised.json");
  std::set<std::string> scaled;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor->scaled) scaled.insert(name);
  }
  EXPECT_EQ(scaled.size(), expected.size());
  for (const auto& [name, checksum] : expected.items()) {
    ASSERT_TRUE(scaled.contains(name)) << name;
    const std::vector<float> values = decoded(*checkpoint.tensors().at(name));
    EXPECT_EQ(fnv1a64(std::as_bytes(std::span(values))), std::stoull(checksum.get<std::string>(), nullptr, 16)) << name;
  }
}

TEST_P(QuantisedFolders, GiveTheLogitsOfTransformers) { EXPECT_LT(logits_error("ref", {}), 1e-5); }

// Rows are rounded too where weights are kept in groups of 4 or 8 bits; by the size of these errors the bits are kept.
TEST_P(QuantisedFolders, GiveNearlyThoseOnTheCpu) {
  DeviceOptions options;
  EXPECT_LT(logits_error("cpu", options), 0.02);
  options.weights = KeptWeights::kExact;
  EXPECT_LT(logits_error("cpu", options), 0.02);
}

INSTANTIATE_TEST_SUITE_P(Folders, QuantisedFolders, ::testing::ValuesIn(subfolders(data_folder() / "quantised")),
                         [](const auto& test) { return test.param; });

TEST(QuantisedGoldens, AreAllThere) { EXPECT_GE(subfolders(data_folder() / "quantised").size(), 16u); }

// Blocks of 128 x 128 of E4M3, which the CPU keeps as they are: nothing is rounded but sums, or rows to bf16.
TEST(Fp8, IsKeptAsItIs) {
  const SeededCheckpoint checkpoint(data_folder() / "quantised" / "fp8_128");
  const Checkpoint files(checkpoint.folder());
  const StoredTensor& tensor = *files.tensors().at("model.layers.0.mlp.down_proj.weight");
  const WeightPart part(tensor.name, *tensor.scaled);
  EXPECT_EQ(part.scheme, Scheme::kScaledE4M3);
  const auto weight = make_device("cpu", {})->pack({{part}, {}});
  EXPECT_EQ(weight->format(), "e4m3");
  EXPECT_LT(weight->bytes(), static_cast<size_t>(part.rows * part.cols) * 5 / 4) << "3 groups of 128 hold 320 columns";
}

// Writes one byte into a tensor of a file.
void put_byte(const std::filesystem::path& path, const std::string& name, uint64_t at, char byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, ' ');
  file.read(header.data(), static_cast<std::streamsize>(size));
  const auto begin = Json::parse(header)[name]["data_offsets"][0].get<uint64_t>();
  file.seekp(static_cast<std::streamoff>(sizeof size + size + begin + at));
  file.put(byte);
}

TEST(Fp8, CodesThatAreNoNumbersAreRefusedByName) {
  for (const char code : {'\x7F', '\xFF'}) {
    const SeededCheckpoint checkpoint(data_folder() / "quantised" / "fp8_128");
    const std::string name = "model.layers.0.mlp.up_proj.weight";
    put_byte(checkpoint.folder() / "model.safetensors", name, 192 * 5 + 130, code);
    for (const char* device : {"ref", "cpu"}) {
      const auto ops = make_device(device, {});
      try {
        Model::load(*ops, checkpoint.folder());
        ADD_FAILURE() << "loaded on " << device;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("element 1090;"), std::string::npos) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
