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
  folder.write("a.safetensors", "one");
  folder.write("b.safetensors", "two");
  const std::string mark = weights_mark(folder.path());
  folder.write("config.json", "{}");
  EXPECT_EQ(mark, weights_mark(folder.path()));
  folder.write("b.safetensors", "twp");
  EXPECT_NE(mark, weights_mark(folder.path()));
  EXPECT_THROW(weights_mark(folder / "none.gguf"), Error);
}

}  // namespace
}  // namespace ashlar
