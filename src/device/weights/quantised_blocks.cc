// SPDX-License-Identifier: Apache-2.0
#include "device/weights/quantised_blocks.h"

#include <bit>
#include <cstring>

#include "base/bf16.h"

namespace ashlar {
namespace {

uint8_t byte_at(const std::byte* from, int64_t i) { return static_cast<uint8_t>(from[i]); }
int8_t signed_at(const std::byte* from, int64_t i) { return static_cast<int8_t>(from[i]); }

uint32_t word_at(const std::byte* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

Float16 half_at(const std::byte* from) {
  Float16 half;
  std::memcpy(&half, from, sizeof half);
  return half;
}

float scale_at(const std::byte* from) { return to_float(half_at(from)); }

// Whole numbers times finite scales of 16 bits are finite.
template <int64_t... offsets>
bool halves_are_finite(const std::byte* block) {
  return (((half_at(block + offsets).bits & 0x7C00) != 0x7C00) && ...);
}

// Of 32 numbers of 4 bits: the first 16 lie in the low halves of 16 bytes, the others in the high halves.
template <class Value>
void decode_nibbles(const std::byte* from, const Value& value, float* to) {
  for (int i = 0; i < 16; ++i) {
    to[i] = value(i, byte_at(from, i) & 15);
    to[i + 16] = value(i + 16, byte_at(from, i) >> 4);
  }
}

void decode_q8_0(const std::byte* block, float* to) {
  const float scale = scale_at(block);
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(signed_at(block, 2 + i));
}

void decode_q4_0(const std::byte* block, float* to) {
  const float scale = scale_at(block);
  decode_nibbles(
      block + 2, [&](int, int q) { return scale * static_cast<float>(q - 8); }, to);
}

void decode_q4_1(const std::byte* block, float* to) {
  const float scale = scale_at(block);
  const float least = scale_at(block + 2);
  decode_nibbles(
      block + 4, [&](int, int q) { return scale * static_cast<float>(q) + least; }, to);
}

// The fifth bits of 32 numbers are one word.
int with_bit(uint32_t bits, int i, int q) { return q | static_cast<int>(bits >> i & 1) << 4; }

void decode_q5_0(const std::byte* block, float* to) {
  const float scale = scale_at(block);
  const uint32_t bits = word_at(block + 2);
  decode_nibbles(
      block + 6, [&](int i, int q) { return scale * static_cast<float>(with_bit(bits, i, q) - 16); }, to);
}

void decode_q5_1(const std::byte* block, float* to) {
  const float scale = scale_at(block);
  const float least = scale_at(block + 2);
  const uint32_t bits = word_at(block + 4);
  decode_nibbles(
      block + 8, [&](int i, int q) { return scale * static_cast<float>(with_bit(bits, i, q)) + least; }, to);
}

constexpr int kSuper = 256;  // numbers of the larger blocks

// Two bits a number: of each half of 128, the first 32 numbers lie in the lowest bits of 32 bytes, the next 32 in the
// bits above, and so on.
int two_bits(const std::byte* from, int i) { return byte_at(from, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3; }

void decode_q2_k(const std::byte* block, float* to) {
  const std::byte* groups = block;  // of 16: scale and minimum, 4 bits each
  const float scale = scale_at(block + 80);
  const float least = scale_at(block + 82);
  for (int i = 0; i < kSuper; ++i) {
    const int group = byte_at(groups, i / 16);
    to[i] = scale * static_cast<float>(group & 15) * static_cast<float>(two_bits(block + 16, i)) -
            least * static_cast<float>(group >> 4);
  }
}

void decode_q3_k(const std::byte* block, float* to) {
  const std::byte* high = block;  // bit i / 32 of byte i % 32: the third bit of number i, inverted
  const std::byte* groups = block + 96;
  const float scale = scale_at(block + 108);
  for (int i = 0; i < kSuper; ++i) {
    const int g = i / 16;
    const int low_bits = g < 8 ? byte_at(groups, g) & 15 : byte_at(groups, g - 8) >> 4;
    const int group = (low_bits | (byte_at(groups, 8 + g % 4) >> (g / 4 * 2) & 3) << 4) - 32;
    const int third = byte_at(high, i % 32) >> (i / 32) & 1;
    to[i] = scale * static_cast<float>(group) * static_cast<float>(two_bits(block + 32, i) - (third != 0 ? 0 : 4));
  }
}

struct GroupScale {
  int scale, least;
};

// Scale and minimum of group g of 8, 6 bits each in 12 bytes: of the first four groups the low 6 bits of the first
// eight bytes; of the others 4 bits in the last four bytes and 2 on top of the first eight.
GroupScale six_bit_scales(const std::byte* from, int g) {
  if (g < 4) return {byte_at(from, g) & 63, byte_at(from, g + 4) & 63};
  const int low = byte_at(from, g + 4);
  return {(low & 15) | byte_at(from, g - 4) >> 6 << 4, low >> 4 | byte_at(from, g) >> 6 << 4};
}

// Number i of 32 in a row whose bits begin at `shift` of a byte each: loops over it become vectors.
int bits_at(const std::byte* from, int i, int shift, int mask) { return byte_at(from, i) >> shift & mask; }

// value = step * number - offset, in groups of 32. number(g) is a function of the place within group g.
template <class NumbersOf>
void decode_groups_of_32(const std::byte* block, const NumbersOf& numbers_of, float* to) {
  const float scale = scale_at(block);
  const float least = scale_at(block + 2);
  for (int g = 0; g < 8; ++g, to += 32) {
    const GroupScale group = six_bit_scales(block + 4, g);
    const float step = scale * static_cast<float>(group.scale);
    const float offset = least * static_cast<float>(group.least);
    const auto number = numbers_of(g);
    for (int i = 0; i < 32; ++i) to[i] = step * static_cast<float>(number(i)) - offset;
  }
}

// Four bits a number: of each 64, the first 32 lie in the low halves of 32 bytes.
void decode_q4_k(const std::byte* block, float* to) {
  const auto numbers_of = [block](int g) {
    return [from = block + 16 + g / 2 * 32, shift = g % 2 * 4](int i) { return bits_at(from, i, shift, 15); };
  };
  decode_groups_of_32(block, numbers_of, to);
}

void decode_q5_k(const std::byte* block, float* to) {
  const auto numbers_of = [block](int g) {
    return [high = block + 16, g, from = block + 48 + g / 2 * 32, shift = g % 2 * 4](int i) {
      return bits_at(from, i, shift, 15) | bits_at(high, i, g, 1) << 4;
    };
  };
  decode_groups_of_32(block, numbers_of, to);
}

// Of each 128: numbers 0 to 63 in the low halves of 64 bytes, the others in the high ones; two more bits of each in 32
// bytes, as two_bits says.
void decode_q6_k(const std::byte* block, float* to) {
  const float scale = scale_at(block + 208);
  for (int g = 0; g < kSuper / 16; ++g, to += 16) {
    const std::byte* low = block + g / 8 * 64 + g % 4 * 16;
    const std::byte* high = block + 128 + g / 8 * 32 + g % 2 * 16;
    const int low_shift = g % 8 / 4 * 4, high_shift = g % 8 / 2 * 2;
    const float step = scale * static_cast<float>(signed_at(block, 192 + g));
    for (int i = 0; i < 16; ++i) {
      const int number = (bits_at(low, i, low_shift, 15) | bits_at(high, i, high_shift, 3) << 4) - 32;
      to[i] = step * static_cast<float>(number);
    }
  }
}

constexpr int8_t kUneven[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void decode_iq4_nl(const std::byte* block, float* to) {
  const float scale = scale_at(block);
  decode_nibbles(
      block + 2, [&](int, int q) { return scale * static_cast<float>(kUneven[q]); }, to);
}

void decode_iq4_xs(const std::byte* block, float* to) {
  const float scale = scale_at(block);
  const uint32_t high = byte_at(block, 2) | static_cast<uint32_t>(byte_at(block, 3)) << 8;
  for (int g = 0; g < 8; ++g) {
    const int low = byte_at(block, 4 + g / 2) >> (g % 2 * 4) & 15;
    const int group = (low | static_cast<int>(high >> (2 * g) & 3) << 4) - 32;
    const float step = scale * static_cast<float>(group);
    decode_nibbles(
        block + 8 + 16 * g, [&](int, int q) { return step * static_cast<float>(kUneven[q]); }, to + 32 * g);
  }
}

constexpr int8_t kE2M1Doubled[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Half of 2^(exponent - 127), since the numbers are doubled.
float half_power(uint8_t exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000U << exponent : static_cast<uint32_t>(exponent - 1) << 23;
  return std::bit_cast<float>(bits);
}

void decode_mxfp4(const std::byte* block, float* to) {
  const float scale = half_power(byte_at(block, 0));
  decode_nibbles(
      block + 1, [&](int, int q) { return scale * static_cast<float>(kE2M1Doubled[q]); }, to);
}

// Twelve times the scale must be below 2^128.
bool mxfp4_is_finite(const std::byte* block) { return byte_at(block, 0) <= 252; }

}  // namespace

const BlockFormat kQ8_0 = {32, 34, decode_q8_0, halves_are_finite<0>};
const BlockFormat kQ4_0 = {32, 18, decode_q4_0, halves_are_finite<0>};
const BlockFormat kQ4_1 = {32, 20, decode_q4_1, halves_are_finite<0, 2>};
const BlockFormat kQ5_0 = {32, 22, decode_q5_0, halves_are_finite<0>};
const BlockFormat kQ5_1 = {32, 24, decode_q5_1, halves_are_finite<0, 2>};
const BlockFormat kQ2_K = {256, 84, decode_q2_k, halves_are_finite<80, 82>};
const BlockFormat kQ3_K = {256, 110, decode_q3_k, halves_are_finite<108>};
const BlockFormat kQ4_K = {256, 144, decode_q4_k, halves_are_finite<0, 2>};
const BlockFormat kQ5_K = {256, 176, decode_q5_k, halves_are_finite<0, 2>};
const BlockFormat kQ6_K = {256, 210, decode_q6_k, halves_are_finite<208>};
const BlockFormat kIq4Nl = {32, 18, decode_iq4_nl, halves_are_finite<0>};
const BlockFormat kIq4Xs = {256, 136, decode_iq4_xs, halves_are_finite<0>};
const BlockFormat kMxfp4 = {32, 17, decode_mxfp4, mxfp4_is_finite};

}  // namespace ashlar
