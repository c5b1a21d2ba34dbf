// SPDX-License-Identifier: Apache-2.0
#include "golden/seeded_checkpoint.h"

#include <gtest/gtest.h>

#include <set>

#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

// The checksums in tensors.json are of the bytes that the goldens were made with, in Python.
TEST(SeededCheckpoint, HoldsTheBytesThatPythonWrote) {
  std::set<std::string> dtypes;
  for (const char* topic : {"families", "drafters", "quantised"}) {
    for (const std::string& name : subfolders(data_folder() / topic)) {
      SCOPED_TRACE(name);
      const auto description = data_folder() / topic / name;
      if (!std::filesystem::exists(description / "tensors.json")) continue;
      const SeededCheckpoint checkpoint(description);
      const Json json = read_json_file(description / "tensors.json");
      for (const auto& [path, tensors] : json["files"].items()) {
        const SafetensorsFile file(checkpoint.folder() / path);
        EXPECT_EQ(file.tensors().size(), tensors.size());
        for (const Json& expected : tensors) {
          const StoredTensor& found = file.tensors().at(expected["name"].get<std::string>());
          EXPECT_EQ(found.dtype, expected["dtype"].get<std::string>());
          EXPECT_EQ(found.shape, expected["shape"].get<std::vector<int64_t>>());
          const uint64_t checksum = std::stoull(expected["fnv1a64"].get<std::string>(), nullptr, 16);
          EXPECT_EQ(fnv1a64({found.data, found.bytes}), checksum) << path << ": " << found.name;
          dtypes.insert(found.dtype);
        }
      }
    }
  }
  EXPECT_EQ(dtypes, (std::set<std::string>{"BF16", "BOOL", "F16", "F32", "F8_E4M3", "I32", "I64", "I8", "U8"}));
}

TEST(SeededCheckpoint, IsGoneWithItsObject) {
  std::filesystem::path folder;
  {
    const SeededCheckpoint checkpoint(data_folder() / "families" / "qwen3_tied_bf16");
    folder = checkpoint.folder();
    EXPECT_TRUE(std::filesystem::exists(folder / "model-00003-of-00003.safetensors"));
    EXPECT_TRUE(std::filesystem::exists(folder / "config.json"));
    EXPECT_FALSE(std::filesystem::exists(folder / "tensors.json"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(SeededCheckpoint, LeavesFoldersWithWeightsAlone) {
  const auto folder = data_folder() / "drafters" / "dflash_fitted";
  EXPECT_EQ(SeededCheckpoint(folder).folder(), folder);
  EXPECT_TRUE(std::filesystem::exists(folder / "model.safetensors"));
}

}  // namespace
}  // namespace ashlar::testing
