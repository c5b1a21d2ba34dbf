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

/// The same of bytes that come in pieces, however they are cut.
class ContentHasher {
 public:
  explicit ContentHasher(uint64_t seed = 0);
  void add(std::span<const std::byte> bytes);
  /// Of all that was added.
  uint64_t hash() const;

 private:
  static constexpr size_t kStripe = 32;

  uint64_t seed_;
  uint64_t sums_[4];
  uint64_t size_ = 0;
  std::byte rest_[kStripe];  // the newest size_ % kStripe bytes
};

/// A hash in names of files: 16 hexadecimal digits.
std::string hex_of(uint64_t hash);

}  // namespace ashlar
