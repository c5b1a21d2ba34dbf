// SPDX-License-Identifier: Apache-2.0
#include "unit/text/colliding_texts.h"

#include <cstdint>
#include <random>

namespace ashlar::test {

namespace {

// MurmurHash64A's mixing of a block, and back.
constexpr std::uint64_t kSeed = 0xc70f6907;
constexpr std::uint64_t kFactor = 0xc6a4a7935bd1e995;

constexpr std::uint64_t inverse_factor() {
  std::uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
  return inverse;
}

constexpr std::uint64_t shifted(std::uint64_t v) { return v ^ (v >> 47); }  // its own inverse
constexpr std::uint64_t mixed(std::uint64_t block) { return shifted(block * kFactor) * kFactor; }
constexpr std::uint64_t unmixed(std::uint64_t block) { return shifted(block * inverse_factor()) * inverse_factor(); }

}  // namespace

std::vector<std::string> colliding_texts(std::size_t n) {
  std::mt19937_64 random(1);
  const auto letters = [&] {
    std::uint64_t block = 0;
    for (int i = 0; i < 8; ++i) block = block << 8 | ('a' + random() % 26);
    return block;
  };
  const auto is_text = [](std::uint64_t block) {
    for (; block != 0 && (block & 0xFF) >= ' ' && (block & 0xFF) < 0x7F; block >>= 8) {
    }
    return block == 0;
  };
  const auto bytes = [](std::uint64_t first, std::uint64_t second) {
    std::string text;
    for (const std::uint64_t block : {first, second})
      for (int i = 0; i < 64; i += 8) text += static_cast<char>(block >> i);
    return text;
  };
  std::vector<std::string> texts = {""};
  std::uint64_t hash = kSeed ^ (16 * n * kFactor);
  while (texts.size() < std::size_t{1} << n) {
    const std::uint64_t a = letters(), b = letters(), inner_a = letters();
    const std::uint64_t after_a = (hash ^ mixed(a)) * kFactor, after_b = (hash ^ mixed(b)) * kFactor;
    const std::uint64_t inner_b = unmixed(mixed(inner_a) ^ after_a ^ after_b);
    if (inner_b >> 56 == 0 || !is_text(inner_b)) continue;
    hash = (after_a ^ mixed(inner_a)) * kFactor;
    const std::size_t half = texts.size();
    for (std::size_t i = 0; i < half; ++i) {
      texts.push_back(texts[i] + bytes(b, inner_b));
      texts[i] += bytes(a, inner_a);
    }
  }
  return texts;
}

std::vector<std::array<std::uint64_t, 2>> colliding_blocks(std::size_t n, std::size_t bytes) {
  std::mt19937_64 random(2);
  const std::uint64_t before = kSeed ^ (bytes * kFactor), common = random();
  std::vector<std::array<std::uint64_t, 2>> blocks(n);
  for (auto& [first, second] : blocks) {
    first = random();
    second = unmixed(common ^ ((before ^ mixed(first)) * kFactor));
  }
  return blocks;
}

}  // namespace ashlar::test
