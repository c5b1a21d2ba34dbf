// SPDX-License-Identifier: Apache-2.0
#include "base/content_hash.h"

#include <algorithm>
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

void mix_stripes(uint64_t (&sums)[4], const std::byte* at, size_t n) {
  uint64_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
  for (; n > 0; --n, at += 32) {
    a = mixed(a, load<uint64_t>(at));
    b = mixed(b, load<uint64_t>(at + 8));
    c = mixed(c, load<uint64_t>(at + 16));
    d = mixed(d, load<uint64_t>(at + 24));
  }
  sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}

}  // namespace

ContentHasher::ContentHasher(uint64_t seed)
    : seed_(seed), sums_{seed + kPrimes[0] + kPrimes[1], seed + kPrimes[1], seed, seed - kPrimes[0]} {
  static_assert(std::endian::native == std::endian::little);
}

void ContentHasher::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const size_t held = size_ % kStripe;
  size_ += bytes.size();
  if (held > 0) {
    const size_t n = std::min(kStripe - held, bytes.size());
    std::memcpy(rest_ + held, bytes.data(), n);
    bytes = bytes.subspan(n);
    if (held + n < kStripe) return;
    mix_stripes(sums_, rest_, 1);
  }
  mix_stripes(sums_, bytes.data(), bytes.size() / kStripe);
  const std::span<const std::byte> left = bytes.last(bytes.size() % kStripe);
  std::copy(left.begin(), left.end(), rest_);
}

uint64_t ContentHasher::hash() const {
  uint64_t hash = seed_ + kPrimes[4];
  if (size_ >= kStripe) {
    hash = std::rotl(sums_[0], 1) + std::rotl(sums_[1], 7) + std::rotl(sums_[2], 12) + std::rotl(sums_[3], 18);
    for (const uint64_t sum : sums_) hash = merged(hash, sum);
  }
  hash += size_;
  const std::byte* at = rest_;
  size_t left = size_ % kStripe;
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

uint64_t content_hash(std::span<const std::byte> bytes, uint64_t seed) {
  ContentHasher hasher(seed);
  hasher.add(bytes);
  return hasher.hash();
}

std::string hex_of(uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return digits;
}

}  // namespace ashlar
