// SPDX-License-Identifier: Apache-2.0
#include "base/keyed_hash.h"

#include <random>

namespace ashlar {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void add(uint64_t block) {
    v3 ^= block;
    round();
    round();
    v0 ^= block;
  }
};

// Bytes [at, at + count) of `bytes`, the first one lowest.
uint64_t block_of(std::string_view bytes, size_t at, size_t count) {
  uint64_t block = 0;
  for (size_t i = 0; i < count; ++i) block |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return block;
}

}  // namespace

uint64_t sip_hash(SipKey key, std::string_view bytes) {
  SipState state{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d, key.low ^ 0x6c7967656e657261,
                 key.high ^ 0x7465646279746573};
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state.add(block_of(bytes, at, 8));
  state.add(block_of(bytes, at, bytes.size() - at) | uint64_t{bytes.size() & 0xFF} << 56);
  state.v2 ^= 0xFF;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

SipKey process_hash_key() {
  static const SipKey kKey = [] {
    std::random_device random;
    const auto draw = [&] { return uint64_t{random()} << 32 | random(); };
    const uint64_t low = draw();
    return SipKey{low, draw()};
  }();
  return kKey;
}

}  // namespace ashlar
