// SPDX-License-Identifier: Apache-2.0
#include "base/content_hash.h"

#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace ashlar {
namespace {

constexpr uint64_t kPrimes[] = {0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                                0x27D4EB2F165667C5};

template <class Word>
uint64_t load(const std::byte* from) {  // little-endian, as all machines that this runs on
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

uint64_t mixed(uint64_t sum, uint64_t word) { return std::rotl(sum + word * kPrimes[1], 31) * kPrimes[0]; }
uint64_t merged(uint64_t hash, uint64_t sum) { return (hash ^ mixed(0, sum)) * kPrimes[0] + kPrimes[3]; }

}  // namespace

uint64_t content_hash(std::span<const std::byte> bytes, uint64_t seed) {
  static_assert(std::endian::native == std::endian::little);
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = seed + kPrimes[4];
  if (left >= 32) {
    uint64_t sums[] = {seed + kPrimes[0] + kPrimes[1], seed + kPrimes[1], seed, seed - kPrimes[0]};
    for (; left >= 32; left -= 32) {
      for (uint64_t& sum : sums) {
        sum = mixed(sum, load<uint64_t>(at));
        at += 8;
      }
    }
    hash = std::rotl(sums[0], 1) + std::rotl(sums[1], 7) + std::rotl(sums[2], 12) + std::rotl(sums[3], 18);
    for (const uint64_t sum : sums) hash = merged(hash, sum);
  }
  hash += bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    hash = std::rotl(hash ^ mixed(0, load<uint64_t>(at)), 27) * kPrimes[0] + kPrimes[3];
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ load<uint32_t>(at) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
    left -= 4;
    at += 4;
  }
  for (; left > 0; --left, ++at) hash = std::rotl(hash ^ load<uint8_t>(at) * kPrimes[4], 11) * kPrimes[0];
  hash = (hash ^ hash >> 33) * kPrimes[1];
  hash = (hash ^ hash >> 29) * kPrimes[2];
  return hash ^ hash >> 32;
}

std::string hex_of(uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return digits;
}

}  // namespace ashlar
