// SPDX-License-Identifier: Apache-2.0
#pragma once
// A fast hash of large contents, by which they are known again and damage is found. Two contents of one hash are easily
// made on purpose: for tables with keys from outside there is keyed_hash.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ashlar {

/// XXH64 (Collet, xxHash fast digest algorithm, version 0.1.1): about as fast as memory is read.
uint64_t content_hash(std::span<const std::byte> bytes, uint64_t seed = 0);

/// A hash in names of files: 16 hexadecimal digits.
std::string hex_of(uint64_t hash);

}  // namespace ashlar
