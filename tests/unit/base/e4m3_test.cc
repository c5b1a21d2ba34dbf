// SPDX-License-Identifier: Apache-2.0
// E4M3 against PyTorch's torch.float8_e4m3fn: hashes (FNV-1a, 64 bits) of what it makes of the same numbers.

#include "base/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

namespace ashlar {
namespace {

uint64_t fnv(std::span<const std::byte> bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001B3;
  return hash;
}

// torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float(), with 0 for what is no number.
TEST(E4M3, CodesMeanWhatTheyMeanInPyTorch) {
  std::vector<float> values;
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_value(static_cast<uint8_t>(code));
    EXPECT_EQ(std::isnan(value), (code & 127) == 127) << code;
    values.push_back(std::isnan(value) ? 0 : value);
  }
  EXPECT_EQ(fnv(std::as_bytes(std::span(values))), 0x854CABD1DEFE4645U);
  EXPECT_TRUE(std::signbit(e4m3_value(128)));
}

// 20000 numbers from 2^-15 to 2^9, as x.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8) rounds them.
TEST(E4M3, NumbersAreRoundedAsPyTorchDoes) {
  std::vector<uint8_t> codes;
  uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525 + 1013904223;
    const uint32_t exponent = 112 + (state >> 23 & 255) % 24;
    codes.push_back(nearest_e4m3(std::bit_cast<float>((state & 0x807FFFFF) | exponent << 23)));
  }
  EXPECT_EQ(fnv(std::as_bytes(std::span(codes))), 0x563E0EA480BC96EEU);
}

TEST(E4M3, EveryNumberIsItsOwnNearest) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 127) == 127) continue;
    const float value = e4m3_value(static_cast<uint8_t>(code));
    EXPECT_EQ(nearest_e4m3(value), code);
    if ((code & 127) == 126) continue;
    const float next = e4m3_value(static_cast<uint8_t>(code + 1));
    EXPECT_EQ(nearest_e4m3((value + next) / 2) % 2, 0) << "halfway after " << code;
  }
  EXPECT_EQ(nearest_e4m3(1e30F), 126);
  EXPECT_EQ(nearest_e4m3(-INFINITY), 254);
}

}  // namespace
}  // namespace ashlar
