// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit weights and of weights in groups for the AVX2 path on machines that have AVX-VNNI.

#include "device/cpu/isa/isa_common.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,avxvnni")
namespace ashlar::cpu {
namespace avxvnni {

inline constexpr bool kAddsProducts = true;

// clang-format off
#include "device/cpu/isa/vec_avx2.inc"
#include "device/cpu/linear/packed_blocks.inc"
#include "device/cpu/linear/output.inc"
#include "device/cpu/quant/avx2_quantised.inc"
#include "device/cpu/quant/grouped_rows.inc"
#include "device/cpu/quant/grouped_avx2.inc"
#include "device/cpu/quant/grouped.inc"
// clang-format on

}  // namespace avxvnni
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

LinearKernels avxvnni_quantised_kernels() {
  using namespace avxvnni;
  return {quantised_linear, kQuantisedRows, 1, quantised_packed_bytes, quantised_pack};
}
LinearKernels avxvnni_grouped_kernels(int32_t bits) {
  using namespace avxvnni;
  return bits == 4 ? grouped_kernels<4>() : grouped_kernels<8>();
}

}  // namespace ashlar::cpu
