// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed weights that outlive the process that packed them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ashlar {

/// Where a device whose packing takes longer than reading looks for what it packed at an earlier start. A key says all
/// that the bytes depend on: the content of the source, the device's layout and what it rounds to. One thread.
class PackedStore {
 public:
  virtual ~PackedStore() = default;
  /// Whether it is worth finding a key.
  virtual bool is_open() const = 0;
  /// The `bytes` bytes that keep() got for this key, or null. They live as long as the pointer, and may be damaged: a
  /// copy of them is to be shown to is_whole() before it is used.
  virtual std::shared_ptr<const std::byte> take(uint64_t key, size_t bytes) = 0;
  /// Whether a copy of what take() gave is what keep() got.
  virtual bool is_whole(uint64_t key, std::span<const std::byte> copy) = 0;
  /// Keeps a copy for the next start, if that can be.
  virtual void keep(uint64_t key, std::span<const std::byte> bytes) = 0;
};

}  // namespace ashlar
