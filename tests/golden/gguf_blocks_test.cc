// SPDX-License-Identifier: Apache-2.0
// Numbers in blocks against the dequantisers of the Python package gguf, bit for bit.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "device/weights/weight_source.h"
#include "golden/golden_data.h"
#include "io/weights/safetensors.h"

namespace ashlar::testing {
namespace {

class GgufBlocks : public ::testing::TestWithParam<const char*> {
 protected:
  const StoredTensor& tensor(const char* what) const { return file_.tensors().at(std::string(GetParam()) + what); }

  SafetensorsFile file_{data_folder() / "gguf" / "blocks.safetensors"};
};

TEST_P(GgufBlocks, MeanWhatGgmlSays) {
  const auto scheme = find_scheme(GetParam());
  ASSERT_TRUE(scheme);
  EXPECT_EQ(name_of(*scheme), GetParam());
  const StoredTensor& blocks = tensor(".blocks");
  const StoredTensor& values = tensor(".values");
  ASSERT_EQ(group_of(*scheme), values.shape[1]);
  std::vector<float> want(values.bytes / sizeof(float)), got(want.size());
  std::memcpy(want.data(), values.data, values.bytes);
  // As rows of one block each, and as one row of all blocks.
  for (const int64_t rows : {blocks.shape[0], int64_t{1}}) {
    const auto cols = static_cast<int64_t>(want.size()) / rows;
    const WeightPart part("w", *scheme, blocks.data, rows, cols);
    EXPECT_EQ(part.values.stride * rows, static_cast<int64_t>(blocks.bytes));
    EXPECT_EQ(first_not_finite(part), std::nullopt);
    decode_rows(part, 0, rows, got.data());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "number " << i;
  }
}

// A scale that is no number is found, whichever scale and block it is.
TEST_P(GgufBlocks, WithoutFiniteScalesAreFound) {
  const Scheme scheme = *find_scheme(GetParam());
  const StoredTensor& blocks = tensor(".blocks");
  const int64_t size = blocks.shape[1], numbers = group_of(scheme);
  std::vector<float> got(static_cast<size_t>(numbers));
  int64_t found = 0;
  for (int64_t at = 0; at < size; ++at) {
    std::vector<std::byte> bytes(blocks.data, blocks.data + blocks.bytes);
    std::byte* block = bytes.data() + size;  // the second one
    block[at] = std::byte{0xFF};
    if (at + 1 < size) block[at + 1] = std::byte{0x7C};
    decode_rows({"w", scheme, block, 1, numbers}, 0, 1, got.data());
    bool finite = true;
    for (const float value : got) finite = finite && value - value == 0;
    const auto first = first_not_finite({"w", scheme, bytes.data(), blocks.shape[0], numbers});
    if (!finite) {
      EXPECT_EQ(first, numbers) << at;
    }
    found += first ? 1 : 0;
  }
  EXPECT_GE(found, 1);
}

INSTANTIATE_TEST_SUITE_P(Types, GgufBlocks,
                         ::testing::Values("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
                                           "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ashlar::testing
