// SPDX-License-Identifier: Apache-2.0
#pragma once
// Texts that an unkeyed hash takes for one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::test {

/// 2^n texts of 16 n letters, digits and signs that std::hash of libstdc++ (MurmurHash64A with a seed that everybody
/// knows) takes for one: pieces of two blocks each, of which the second makes up for what the first changed.
std::vector<std::string> colliding_texts(std::size_t n);

/// n pairs of 64-bit blocks that begin keys of `bytes` bytes with one such hash, if all else in these is the same.
std::vector<std::array<uint64_t, 2>> colliding_blocks(std::size_t n, std::size_t bytes);

}  // namespace ashlar::test
