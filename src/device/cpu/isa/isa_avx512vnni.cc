// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit weights for paths of AVX-512 on machines that have VNNI.

#include "device/cpu/isa/isa_common.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi,bmi2")
namespace ashlar::cpu {
namespace avx512vnni {

inline constexpr int kLinearRows = 24;
constexpr int blocks_for_rows(int rows) { return rows <= 6 ? 4 : rows <= 12 ? 2 : 1; }

// clang-format off
#include "device/cpu/isa/vec_avx512.inc"
#include "device/cpu/isa/transpose_avx512.inc"
#include "device/cpu/linear/pack_rows_avx512.inc"
#include "device/cpu/linear/packed_blocks.inc"
#include "device/cpu/linear/output.inc"
#include "device/cpu/quant/quantised_rows.inc"
#include "device/cpu/quant/vnni_quantised.inc"
#include "device/cpu/quant/grouped_rows.inc"
#include "device/cpu/quant/grouped_parts.inc"
#include "device/cpu/quant/grouped_vnni.inc"
#include "device/cpu/quant/grouped.inc"
// clang-format on

}  // namespace avx512vnni
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

LinearKernels vnni_quantised_kernels() {
  using namespace avx512vnni;
  return {quantised_linear, kQuantisedRows, 1, quantised_packed_bytes, quantised_pack};
}
LinearKernels vnni_grouped_kernels(int32_t bits) {
  using namespace avx512vnni;
  return bits == 4 ? grouped_kernels<4>() : grouped_kernels<8>();
}

}  // namespace ashlar::cpu
