// SPDX-License-Identifier: Apache-2.0
#include "io/weights/weights_mark.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

// Fine-tuned weights differ everywhere, quantised ones in size, and names of folders mean nothing.
TEST(WeightsMark, IsThatOfTheBytes) {
  const TempFolder folder;
  std::string bytes(1 << 20, 'a');
  folder.write("model.gguf", bytes);
  folder.write("copy.gguf", bytes);
  const std::string mark = weights_mark(folder / "model.gguf");
  EXPECT_EQ(mark.size(), 16U);
  EXPECT_EQ(mark, weights_mark(folder / "copy.gguf"));
  bytes[1 << 19] = 'b';
  folder.write("copy.gguf", bytes);
  EXPECT_NE(mark, weights_mark(folder / "copy.gguf"));
  folder.write("copy.gguf", std::string((1 << 20) + 1, 'a'));
  EXPECT_NE(mark, weights_mark(folder / "copy.gguf"));
}

TEST(WeightsMark, OfAFolderIsThatOfAllItsShards) {
  const TempFolder folder;
  const std::string second = "model-00002-of-00002.safetensors";
  folder.write("model-00001-of-00002.safetensors", "one");
  folder.write(second, "two");
  const std::string mark = weights_mark(folder.path());
  folder.write("config.json", "{}");
  folder.write("consolidated.safetensors", "the same in one, which is not read");
  EXPECT_EQ(mark, weights_mark(folder.path()));
  folder.write(second, "twp");
  EXPECT_NE(mark, weights_mark(folder.path()));
  EXPECT_THROW(weights_mark(folder / "none.gguf"), Error);
  folder.write("x-00001-of-00002.gguf", "one");
  folder.write("x-00002-of-00002.gguf", "two");
  const std::string sharded = weights_mark(folder / "x-00001-of-00002.gguf");
  folder.write("x-00002-of-00002.gguf", "twp");
  EXPECT_NE(sharded, weights_mark(folder / "x-00001-of-00002.gguf"));
}

}  // namespace
}  // namespace ashlar
