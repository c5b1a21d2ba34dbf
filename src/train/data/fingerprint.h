// SPDX-License-Identifier: Apache-2.0
#pragma once
// A number by which a run knows that it goes on with the same data (FNV-1a).

#include <cstddef>
#include <cstdint>
#include <span>

namespace ashlar {

inline constexpr uint64_t kNoBytes = 0xCBF29CE484222325u;

/// That of the bytes before, kNoBytes where there are none, with these after them.
inline uint64_t fingerprint_with(uint64_t before, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) before = (before ^ static_cast<uint64_t>(byte)) * 0x100000001B3u;
  return before;
}

}  // namespace ashlar
