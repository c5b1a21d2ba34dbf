// SPDX-License-Identifier: Apache-2.0
#include "io/weights/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "io/mapped_file.h"
#include "io/weights/safetensors.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using Type = TensorToWrite::Type;

std::vector<float> numbers_of(size_t n) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(SafetensorsWriter, TheReaderReadsWhatWasWritten) {
  const TempFolder folder;
  const std::vector<float> a = numbers_of(6), b = numbers_of(5), none;
  const std::vector<TensorToWrite> tensors = {
      {"a", {2, 3}, a, Type::kF32}, {"b", {5}, b, Type::kBF16}, {"none", {0, 4}, none, Type::kF32}};
  write_safetensors(folder / "x.safetensors", tensors, {{"format", "pt"}, {"step", "7"}});
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.metadata().at("step"), "7");
  const StoredTensor& first = file.tensors().at("a");
  EXPECT_EQ(first.dtype, "F32");
  EXPECT_EQ(first.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(first.data, a.data(), first.bytes), 0);
  EXPECT_EQ(file.tensors().at("b").dtype, "BF16");
  EXPECT_EQ(file.tensors().at("b").bytes, 10u);
  EXPECT_EQ(file.tensors().at("none").bytes, 0u);
}

// bf16 has 8 bits of significand: the nearest is within 2^-9 of a number, and of two that are as near the even one is.
TEST(SafetensorsWriter, RoundsToTheNearest) {
  const TempFolder folder;
  std::vector<float> values = numbers_of(200'000);  // more than one piece
  values[0] = 1.0F + 0x1p-8F;                       // between 1 and 1 + 2^-7
  values[1] = 1.0F + 3 * 0x1p-8F;                   // between 1 + 2^-7 and 1 + 2^-6
  const std::vector<TensorToWrite> tensors = {{"v", {static_cast<int64_t>(values.size())}, values, Type::kBF16}};
  write_safetensors(folder / "x", tensors);
  const SafetensorsFile file(folder / "x");
  const std::byte* data = file.tensors().at("v").data;
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, data + 2 * i, 2);
    float stored = 0;
    std::memcpy(&stored, &bits, sizeof(stored));
    ASSERT_LE(std::abs(stored - values[i]), std::abs(values[i]) * 0x1p-8F) << i;
    if (i == 0) {
      EXPECT_EQ(stored, 1.0F);
    }
    if (i == 1) {
      EXPECT_EQ(stored, 1.0F + 0x1p-6F);
    }
  }
}

TEST(SafetensorsWriter, DataIsAlignedAndTheOldFileStaysUntilTheNewOneIsThere) {
  const TempFolder folder;
  folder.write("x", "old");
  const std::vector<float> a = numbers_of(1);
  const std::vector<TensorToWrite> twice = {{"a", {1}, a, Type::kF32}, {"a", {1}, a, Type::kF32}};
  EXPECT_THROW(write_safetensors(folder / "x", twice), Error);
  EXPECT_EQ(read_text_file(folder / "x", 1000), "old");
  write_safetensors(folder / "x", std::span(twice).first(1));
  const std::string bytes = read_text_file(folder / "x", 1000);
  EXPECT_EQ((bytes.size() - 4) % 8, 0u);
}

}  // namespace
}  // namespace ashlar
