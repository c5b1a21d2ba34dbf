// Kernels for AMX-BF16 and AMX-INT8: products of bf16 and 8-bit weights and attention on tiles, everything else as on
// AVX-512.

#include "device/cpu/isa/isa_common.h"
#include "device/cpu/linear/tile_config.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,f16c,bmi,bmi2")
namespace ashlar::cpu {
namespace amx {

// clang-format off
#include "device/cpu/isa/vec_avx512.inc"
#include "device/cpu/linear/output.inc"
#include "device/cpu/linear/tiles_amx.inc"
#include "device/cpu/linear/amx_linear.inc"
#include "device/cpu/quant/quantised_rows.inc"
#include "device/cpu/quant/amx_quantised.inc"
#include "device/cpu/isa/rowwise.inc"
#include "device/cpu/linear/amx_activation.inc"
#include "device/cpu/linear/amx_gated.inc"
#include "device/cpu/attention/attention_segment.inc"
#include "device/cpu/attention/amx_attention.inc"
// clang-format on

inline void pack_queries(const AttentionBlock& block, float* scratch) {
  if (fits_tiles(block.head_dim, block.dtype)) return pack_query_tiles(block, scratch);
  avx512_kernels().pack_queries(block, scratch);
}

inline void attend(const AttentionBlock& block, int32_t segment, float* scratch, float* states) {
  if (fits_tiles(block.head_dim, block.dtype)) return attend_tiles(block, segment, scratch, states);
  avx512_kernels().attend(block, segment, scratch, states);
}

inline void finish_packed(const float* state, int32_t head_dim, int32_t row, int32_t column, std::byte* packed) {
  static_assert(kPanelColumns % kTileDepth == 0);
  const F scale = set1(state[1] == 0 ? 0.0F : 1.0F / state[1]);
  auto* to = reinterpret_cast<uint16_t*>(packed + tile_packed_bytes(column)) + int64_t{row} * kTileDepth;
  for (int32_t i = 0; i < head_dim; i += kTileDepth, to += kTileRows * kTileDepth) {
    float depth[kTileDepth];
    const float* values = state + kStateHeader + i;
    for (int v = 0; v < kTileDepth; v += kLanes) store(depth + v, mul(load(values + v), scale));
    narrow_depth(depth, to);
  }
}

inline void fetching_rms_norm(const float* x, const float* weight, float eps, int32_t n, float* out) {
  fetch_upcoming(n / 32);
  rms_norm(x, weight, eps, n, out);
}

inline void fetching_store_value(const float* v, int32_t head_dim, int32_t token, uint16_t* values) {
  fetch_upcoming(head_dim / 8);
  store_value(v, head_dim, token, values);
}

}  // namespace amx
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

const Kernels& amx_kernels() {
  static const Kernels kernels = [] {
    Kernels out = avx512_kernels();
    out.isa = "amx";
    out.bf16 = {amx::tile_linear, amx::kTileRows,    1, amx::tile_packed_bytes, amx::tile_pack,
                amx::gated_pack,  amx::finish_packed};
    out.quantised = {amx::quantised_linear, amx::kTileRows, 1, amx::quantised_packed_bytes, amx::quantised_pack};
    out.rms_norm = amx::fetching_rms_norm;
    out.silu_mul = amx::tile_silu_mul;
    out.store_value = amx::fetching_store_value;
    out.pack_queries = amx::pack_queries;
    out.attend = amx::attend;
    out.expect = amx::expect_weights;
    out.joins_branches = amx::fits_tiles;
    return out;
  }();
  return kernels;
}

}  // namespace ashlar::cpu
