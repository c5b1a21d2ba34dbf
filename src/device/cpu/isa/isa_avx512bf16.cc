// SPDX-License-Identifier: Apache-2.0
// Kernels for AVX-512 with BF16: products of bf16 weights pair by pair, everything else as on AVX-512.

#include "device/cpu/isa/isa_common.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,f16c,bmi,bmi2")
namespace ashlar::cpu {
namespace avx512bf16 {

// As on AVX-512: up to 6 x 4, 12 x 2 or 24 x 1 accumulators.
inline constexpr int kLinearRows = 24;
constexpr int blocks_for_rows(int rows) { return rows <= 6 ? 4 : rows <= 12 ? 2 : 1; }

// clang-format off
#include "device/cpu/isa/vec_avx512.inc"
#include "device/cpu/isa/transpose_avx512.inc"
#include "device/cpu/linear/packed_blocks.inc"
#include "device/cpu/linear/dot_product.inc"
#include "device/cpu/linear/output.inc"
#include "device/cpu/linear/linear.inc"
// clang-format on

}  // namespace avx512bf16
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

const Kernels& avx512bf16_kernels() {
  using namespace avx512bf16;
  static const Kernels kernels = [] {
    Kernels out = avx512_kernels();
    out.isa = "avx512bf16";
    out.bf16 = {linear<uint16_t>, kLinearRows, 1, packed_pair_bytes, pack_pairs};
    return out;
  }();
  return kernels;
}

}  // namespace ashlar::cpu
