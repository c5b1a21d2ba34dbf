// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keys and values of the reference device, and attention over them.

#include <vector>

#include "device/kv/key_codec.h"
#include "device/ops.h"

namespace ashlar::ref {

/// A page is K, then V, each [n_kv_heads, kPageTokens] vectors of a head: its numbers as floats, or a byte for each
/// code and then the scale.
class KvPages {
 public:
  /// codec: of values, null for floats; keys have theirs (key_codec).
  explicit KvPages(const KvCodec* codec) : codec_(codec) {}

  int64_t page_bytes(const AttentionShape& shape) const;
  /// Ops::store_kv, Ops::commit_kv and Ops::attention.
  void store(Tensor qkv, const KvStore& to) const;
  void commit(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table, KvPlane plane) const;
  void attend(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
              Tensor out) const;

 private:
  /// Keys or values that a row sees, [keys] vectors of one head.
  struct Seen {
    std::vector<const float*> vectors;
    std::vector<float> read;  ///< room for those that were codes
  };
  int64_t vector_bytes(const AttentionShape& shape) const;
  std::byte* in_page(const int32_t* pages, const AttentionShape& shape, KvPlane plane, int32_t position, int32_t head,
                     bool value) const;
  std::byte* in_scratch(const AttentionShape& shape, KvPlane plane, int32_t slot, int32_t head, bool value) const;
  void write(const float* x, const AttentionShape& shape, bool value, std::byte* to) const;
  const KvCodec& codec(bool value) const { return value ? *codec_ : key_codec(*codec_); }
  void see(Tensor q, int32_t row, int32_t kv_head, const AttentionShape& shape, const Rows& rows, Visibility visible,
           KvPlane plane, bool value, Seen& seen) const;

  const KvCodec* codec_;
};

}  // namespace ashlar::ref
