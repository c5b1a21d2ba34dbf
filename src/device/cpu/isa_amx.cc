// Kernels for AMX-BF16: products of bf16 weights on tiles, everything else as on AVX-512.

#include "device/cpu/isa_common.h"
#include "device/cpu/tile_config.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,f16c,bmi,bmi2")
namespace ashlar::cpu {
namespace amx {

// clang-format off
#include "device/cpu/vec_avx512.inc"
#include "device/cpu/output.inc"
#include "device/cpu/tiles_amx.inc"
#include "device/cpu/amx_linear.inc"
// clang-format on

}  // namespace amx
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

const Kernels& amx_kernels() {
  static const Kernels kernels = [] {
    Kernels out = avx512_kernels();
    out.isa = "amx";
    out.bf16 = {amx::tile_linear, amx::kTileRows, 1, amx::tile_packed_bytes, amx::tile_pack};
    return out;
  }();
  return kernels;
}

}  // namespace ashlar::cpu
