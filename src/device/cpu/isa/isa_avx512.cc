// SPDX-License-Identifier: Apache-2.0
// Kernels for AVX-512 (F, BW, VL, DQ): sixteen lanes, thirty-two registers.

#include "device/cpu/isa/cpu_features.h"
#include "device/cpu/isa/isa_common.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi,bmi2")
namespace ashlar::cpu {
namespace avx512 {

// Accumulators are rows x vectors of 16: up to 6 x 4, 12 x 2 or 24 x 1 of the thirty-two registers. Fewer vectors mean
// fewer instructions that widen weights for each multiplication (docs/kernels.md), but more rows than there are
// registers for pointers.
inline constexpr int kLinearRows = 24;
inline constexpr int kAttentionRows = 16;
inline constexpr int kPackFrom = 7;
constexpr int blocks_for_rows(int rows) { return rows <= 6 ? 4 : rows <= 12 ? 2 : 1; }

// clang-format off
#include "device/cpu/isa/vec_avx512.inc"
#include "device/cpu/isa/bodies.inc"
#include "device/cpu/isa/transpose_avx512.inc"
#include "device/cpu/linear/pack_rows_avx512.inc"
#include "device/cpu/attention/pack_queries_avx512.inc"
// clang-format on

}  // namespace avx512
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

const Kernels& avx512_kernels() {
  using namespace avx512;
  static const Kernels kernels{"avx512",
                               {linear<uint16_t>, kLinearRows, kPackFrom, packed_bytes, pack_rows},
                               {linear<float>, kLinearRows, kPackFrom, packed_bytes, pack_rows},
                               {linear<E4M3Group>, kLinearRows, kPackFrom, packed_bytes, pack_rows},
                               rms_norm,
                               silu_mul,
                               highest,
                               finish_head,
                               store_key,
                               store_value,
                               pack_queries_by_vectors,
                               attend,
                               merge,
                               finish,
                               {sigmoid_gate, silu_gate, gelu_gate, convolve, dot, scale, delta_rows},
                               multiplies_bytes() ? vnni_quantised_kernels() : LinearKernels{},
                               multiplies_bytes() ? vnni_grouped_kernels(8) : avx2_kernels().groups8,
                               multiplies_bytes() ? vnni_grouped_kernels(4) : avx2_kernels().groups4};
  return kernels;
}

}  // namespace ashlar::cpu
