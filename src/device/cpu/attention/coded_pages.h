// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pages of codes. Inside a page, per key/value head: codes of keys, scales of keys, codes of values, scales of values,
// the scales as kPageTokens floats. Codes lie so that a plain loop turns them into a page of bf16, whose kernels then
// attend as always: sums are in the same order.
//
// keys, 8 bits: [head_dim / 2][kPageTokens][2]; 6 bits, plus 32: the lower four of the two share a byte, that of the
//   lower dimension in its lower half; then the upper two of four dimensions, [head_dim / 4][kPageTokens], the lowest
//   dimension lowest
// values, 8 bits: [kPageTokens][head_dim]; 4 bits: [kPageTokens][head_dim / 16][8], byte i for dimensions i and 8 + i
// No byte belongs to two tokens: they may be written by several threads.
//
// A scratch slot has its codes one a byte, then the scale: those of all keys, then those of all values.

#include "device/cpu/isa/kernels.h"
#include "device/kv/key_codec.h"
#include "device/rows.h"

namespace ashlar::cpu {

class CodedPages {
 public:
  /// codec: of values; keys have theirs (key_codec).
  CodedPages(const KvCodec& codec, const AttentionShape& shape, KvPlane plane)
      : keys_(key_codec(codec)), values_(codec), shape_(shape), plane_(plane) {}

  const KvCodec& codec(bool value) const { return value ? values_ : keys_; }
  static int64_t page_bytes(const KvCodec& codec, const AttentionShape& shape) {
    return shape.n_kv_heads * (part_bytes(key_codec(codec), shape) + part_bytes(codec, shape));
  }

  /// One head of one token to its place in a page, which `pages` has.
  void write(const CodedVector& from, const int32_t* pages, int32_t position, int32_t kv_head, bool value) const;
  void write_slot(const CodedVector& from, int32_t slot, int32_t kv_head, bool value) const;
  CodedVector read_slot(int32_t slot, int32_t kv_head, bool value) const;

  /// Floats of room that read_segment() needs.
  static int64_t segment_floats(int32_t head_dim) {
    return int64_t{kSegmentKeys} * (head_dim + padded_head_dim(head_dim)) / 2;
  }
  /// The pages [first, last) of a segment of one head as pages of bf16, one after the other from the place of page 0
  /// on, in the coordinates of the cache. Tokens of the branch table are there instead of those of the pages.
  void read_segment(const int32_t* page_table, const BranchTable& branch, int32_t kv_head, int32_t segment,
                    int32_t first, int32_t last, uint16_t* to) const;

 private:
  static int64_t code_bytes(const KvCodec& codec, const AttentionShape& shape) {
    return int64_t{kPageTokens} * shape.head_dim * codec.bits() / 8;
  }
  /// Of the keys or the values of one head in a page.
  static int64_t part_bytes(const KvCodec& codec, const AttentionShape& shape) {
    return code_bytes(codec, shape) + int64_t{kPageTokens} * static_cast<int64_t>(sizeof(float));
  }
  std::byte* part(int32_t page, int32_t kv_head, bool value) const {
    const int64_t keys = part_bytes(keys_, shape_);
    return plane_.base + page * plane_.page_stride + kv_head * (keys + part_bytes(values_, shape_)) +
           (value ? keys : 0);
  }
  std::byte* slot(int32_t slot, int32_t kv_head, bool value) const;
  void put(const CodedVector& from, std::byte* part, int32_t token, bool value) const;

  const KvCodec& keys_;
  const KvCodec& values_;
  const AttentionShape& shape_;
  KvPlane plane_;
};

}  // namespace ashlar::cpu
