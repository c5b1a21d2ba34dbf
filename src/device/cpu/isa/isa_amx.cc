// SPDX-License-Identifier: Apache-2.0
// Kernels for AMX-BF16 and AMX-INT8: products of bf16, 8-bit and grouped weights and attention on tiles, everything
// else as on AVX-512.

#include "device/cpu/isa/cpu_features.h"
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
#include "device/cpu/linear/e4m3_amx.inc"
#include "device/cpu/quant/quantised_rows.inc"
#include "device/cpu/quant/amx_quantised.inc"
#include "device/cpu/quant/grouped_rows.inc"
#include "device/cpu/quant/grouped_parts.inc"
// clang-format on

ASHLAR_INLINE F load_half(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

/// 4 bits of a group of sixteen columns (kernels.h) to bytes.
ASHLAR_INLINE void split_nibbles(const std::byte* pairs, std::byte* bytes) {
  const __m512i low = _mm512_set1_epi8(0x0F);
#pragma GCC unroll 4
  for (int64_t at = 0; at < 256; at += 64) {
    const __m512i both = _mm512_loadu_si512(pairs + at);
    _mm512_store_si512(bytes + at, _mm512_and_si512(both, low));
    _mm512_store_si512(bytes + 256 + at, _mm512_and_si512(_mm512_srli_epi16(both, 4), low));
  }
}

#include "device/cpu/quant/widen_pairs_avx512.inc"

// clang-format off
#include "device/cpu/quant/grouped_amx.inc"
#include "device/cpu/quant/grouped_tiles.inc"
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

/// A few rows are quicker without tiles and a single block without widening, and get the same bits.
template <int kBits>
void grouped_linear(const LinearCall& call) {
  constexpr int32_t kFewRows = 4;
  if (call.blocks > 1) {
    wide_linear<kBits>(call);
  } else if (call.rows > kFewRows) {
    grouped_tile_linear<kBits>(call);
  } else {
    vnni_grouped_kernels(kBits).run(call);
  }
  const int64_t stream = grouped_depth(call.k) / (2 * kGroup) * grouped_pair_bytes(kBits);
  fetch_next(static_cast<const char*>(call.weight) + call.panels * (kPanelColumns / kBlockColumns) * stream);
}

inline int64_t grouped_packed_bytes(int32_t k) {
  const int64_t single = vnni_grouped_kernels(8).packed_bytes(k), several = wide_packed_bytes(k);
  return single > several ? single : several;
}

template <int kBits>
LinearKernels grouped_kernels() {
  LinearKernels kernels = vnni_grouped_kernels(kBits);  // which pack the rows of a single block alike
  kernels.run = grouped_linear<kBits>;
  kernels.packed_bytes = grouped_packed_bytes;
  kernels.pack_several = wide_pack<kBits>;
  return kernels;
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
    out.e4m3 = {amx::e4m3_tile_linear, amx::kTileRows, 1, amx::tile_packed_bytes, amx::tile_pack};
    out.quantised = {amx::quantised_linear, amx::kTileRows, 1, amx::quantised_packed_bytes, amx::quantised_pack};
    if (multiplies_bytes()) {
      out.groups8 = amx::grouped_kernels<8>();
      out.groups4 = amx::grouped_kernels<4>();
    }
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
