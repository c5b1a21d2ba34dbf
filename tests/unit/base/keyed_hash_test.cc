// SPDX-License-Identifier: Apache-2.0
// Against the vectors of the reference implementation (vectors.h of github.com/veorq/SipHash: key 00 01 ... 0f, inputs
// 00, 00 01, ...), whose last is that of the paper's appendix.

#include "base/keyed_hash.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(KeyedHash, IsSipHash) {
  const SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::string bytes;
  const auto next = [&] {
    const uint64_t hash = sip_hash(key, bytes);
    bytes += static_cast<char>(bytes.size());
    return hash;
  };
  for (const uint64_t expected :
       {0x726fdb47dd0e0e31ULL, 0x74f839c593dc67fdULL, 0x0d6c8009d9a94f5aULL, 0x85676696d7fb7e2dULL}) {
    EXPECT_EQ(next(), expected) << bytes.size();
  }
  while (bytes.size() < 15) next();
  EXPECT_EQ(next(), 0xa129ca6149be45e5ULL);
}

TEST(KeyedHash, DependsOnItsKey) {
  EXPECT_NE(sip_hash({1, 2}, "a"), sip_hash({1, 3}, "a"));
  EXPECT_NE(sip_hash({1, 2}, "a"), sip_hash({2, 2}, "a"));
  const TextMap<int> map = {{"a", 1}, {"b", 2}};
  EXPECT_EQ(map.find(std::string_view("b"))->second, 2);
  EXPECT_EQ(map.find(std::string_view("c")), map.end());
}

}  // namespace
}  // namespace ashlar
