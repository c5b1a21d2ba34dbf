// SPDX-License-Identifier: Apache-2.0
#pragma once
// The block formats of GGUF files: what the bytes of one block mean. Layouts and the order of operations are those of
// ggml's reference dequantisers, so that values are theirs to the bit. A block holds whole numbers and one or two
// scales as f16 or as a power of two; formats with "_K" have 256 numbers in smaller groups, whose own scales are whole
// numbers of a few bits.

#include <cstddef>
#include <cstdint>

namespace ashlar {

/// A format of blocks: a row of the table of schemes refers to one of these.
struct BlockFormat {
  int64_t numbers;                                    ///< of a block
  int64_t bytes;                                      ///< of a block
  void (*decode)(const std::byte* block, float* to);  ///< to[numbers]
  bool (*is_finite)(const std::byte* block);          ///< whether all its numbers are
};

extern const BlockFormat kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIq4Nl, kIq4Xs, kMxfp4;

}  // namespace ashlar
