// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pass is known by (Ops::run_pass).

#include <array>
#include <cstddef>
#include <cstdint>

#include "device/rows.h"
#include "device/tensor.h"

namespace ashlar {

/// Numbers and addresses from which the ops of a pass and their arguments follow. Two passes with equal keys ask for
/// the same ops with the same arguments; what else differs between them lies in device memory.
class PassKey {
 public:
  /// `of`: the object whose pass it is. rows: as many as most of its ops have.
  PassKey(const void* of, int32_t rows) : rows_(rows) {
    add(of);
    add(rows);
  }

  void add(int64_t number) {
    if (n_ < kMost) words_[n_] = static_cast<uint64_t>(number);
    ++n_;
  }
  void add(const void* address) { add(static_cast<int64_t>(reinterpret_cast<uintptr_t>(address))); }
  void add(const Tensor& tensor) {
    add(tensor.data);
    for (const int64_t number : {int64_t{tensor.rows}, int64_t{tensor.cols}, tensor.stride}) add(number);
    add(static_cast<int64_t>(tensor.dtype));
  }
  void add(const Rows& rows) {
    add(rows.n);
    for (const void* array : {static_cast<const void*>(rows.ids), static_cast<const void*>(rows.positions),
                              static_cast<const void*>(rows.tables), static_cast<const void*>(rows.page_tables),
                              static_cast<const void*>(rows.without_kv), static_cast<const void*>(rows.scratch_slots),
                              static_cast<const void*>(rows.branch_tables), static_cast<const void*>(rows.states),
                              static_cast<const void*>(rows.block_ends), static_cast<const void*>(rows.first_keys)}) {
      add(array);
    }
  }

  int32_t rows() const { return rows_; }
  /// False if more was added than a key has room for: then it is equal to others that differ.
  bool is_whole() const { return n_ <= kMost; }
  bool operator==(const PassKey&) const = default;

  struct Hash {
    size_t operator()(const PassKey& key) const {
      uint64_t hash = key.n_;
      for (const uint64_t word : key.words_) hash = (hash ^ word) * 0x9E3779B97F4A7C15U, hash ^= hash >> 29U;
      return static_cast<size_t>(hash);
    }
  };

 private:
  static constexpr size_t kMost = 64;
  std::array<uint64_t, kMost> words_{};
  size_t n_ = 0;
  int32_t rows_;
};

}  // namespace ashlar
