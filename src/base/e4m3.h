// SPDX-License-Identifier: Apache-2.0
#pragma once
// Floats of 8 bits: sign, 4 bits of exponent (bias 7), 3 of mantissa, no infinities ("E4M3fn"; OCP 8-bit floating point
// specification, revision 1.0). Codes 0x7F and 0xFF are no numbers.

#include <bit>
#include <cstdint>
#include <limits>

namespace ashlar {

inline constexpr float kLargestE4M3 = 448;

constexpr float e4m3_value(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  float size = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa);
  // 2^(exponent - 10), of an exponent of 0 as of 1.
  size *= std::bit_cast<float>(static_cast<uint32_t>((exponent == 0 ? 1 : exponent) + 117) << 23);
  if ((code & 127) == 127) size = std::numeric_limits<float>::quiet_NaN();
  return (code & 128) != 0 ? -size : size;
}

/// The nearest, of two the even one; sizes above 448 become 448. `value` is a number.
constexpr uint8_t nearest_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7FFFFFFF, sign = bits >> 31 << 7;
  if (size >= std::bit_cast<uint32_t>(kLargestE4M3)) return static_cast<uint8_t>(sign | 126);
  if (size < std::bit_cast<uint32_t>(0x1p-6F)) {  // whole steps of 2^-9, eight of which are the least normal number
    constexpr float kWhole = 3 << 22;             // what is added to a small float and taken off again has no fraction
    const float steps = std::bit_cast<float>(size) * 512 + kWhole - kWhole;
    return static_cast<uint8_t>(sign | static_cast<uint32_t>(steps));
  }
  return static_cast<uint8_t>(sign | (((size + 0x7FFFF + (size >> 20 & 1)) >> 20) - (120U << 3)));
}

}  // namespace ashlar
