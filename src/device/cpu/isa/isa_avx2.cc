// SPDX-License-Identifier: Apache-2.0
// Kernels for AVX2 with FMA: eight lanes, sixteen registers.

#include "device/cpu/isa/cpu_features.h"
#include "device/cpu/isa/isa_common.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
namespace ashlar::cpu {
namespace avx2 {

// Rows x vectors of 8: 1 x 8, 2 x 4, then up to 6 x 2 accumulators out of sixteen registers.
constexpr int blocks_for_rows(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
inline constexpr int kLinearRows = 6;
inline constexpr int kAttentionRows = 6;
inline constexpr int kPackFrom = INT32_MAX;
inline constexpr bool kAddsProducts = false;

// clang-format off
#include "device/cpu/isa/vec_avx2.inc"
#include "device/cpu/isa/bodies.inc"
#include "device/cpu/quant/avx2_quantised.inc"
#include "device/cpu/quant/grouped_rows.inc"
#include "device/cpu/quant/grouped_avx2.inc"
#include "device/cpu/quant/grouped.inc"
#include "device/cpu/quant/grouped_pairs.inc"
// clang-format on

}  // namespace avx2
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

const Kernels& avx2_kernels() {
  using namespace avx2;
  constexpr LinearKernels kQuantised{quantised_linear, kQuantisedRows, 1, quantised_packed_bytes, quantised_pack};
  static const Kernels kernels{"avx2",
                               {linear<uint16_t>, kLinearRows, INT32_MAX, nullptr, nullptr},
                               {linear<float>, kLinearRows, INT32_MAX, nullptr, nullptr},
                               {linear<E4M3Group>, kLinearRows, INT32_MAX, nullptr, nullptr},
                               rms_norm,
                               silu_mul,
                               highest,
                               finish_head,
                               store_key,
                               store_value,
                               pack_queries,
                               attend,
                               merge,
                               finish,
                               {sigmoid_gate, silu_gate, gelu_gate, convolve, dot, scale, delta_rows},
                               adds_products() ? avxvnni_quantised_kernels() : kQuantised,
                               adds_products() ? avxvnni_grouped_kernels(8) : grouped_pairs_kernels<8>(),
                               adds_products() ? avxvnni_grouped_kernels(4) : grouped_pairs_kernels<4>()};
  return kernels;
}

}  // namespace ashlar::cpu
