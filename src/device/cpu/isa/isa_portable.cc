// SPDX-License-Identifier: Apache-2.0
// Kernels for plain x86-64 (or anything the compiler knows): four lanes, no fused multiply-add.

#include "device/cpu/isa/isa_common.h"

namespace ashlar::cpu {
namespace portable {

// Sixteen registers: accumulators, then weights and one broadcast.
constexpr int blocks_for_rows(int rows) { return rows == 1 ? 2 : 1; }
inline constexpr int kLinearRows = 2;
inline constexpr int kAttentionRows = 2;
inline constexpr int kPackFrom = INT32_MAX;

// clang-format off
#include "device/cpu/isa/vec_portable.inc"
#include "device/cpu/isa/bodies.inc"
// clang-format on

}  // namespace portable

const Kernels& portable_kernels() {
  using namespace portable;
  static const Kernels kernels{"portable",
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
                               {},
                               {},
                               {}};
  return kernels;
}

}  // namespace ashlar::cpu
