// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tile kernels of the cpu device, compiled for tiles that plain loops stand for.

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/isa/isa_common.h"
#include "device/cpu/linear/tile_config.h"

namespace ashlar::cpu::amx_emulated {

#include "device/cpu/isa/vec_portable.inc"
// (the order matters)
#include "device/cpu/linear/output.inc"

/// Eight tiles of 16 rows of 64 bytes, and the shapes the program configured.
struct Tiles {
  alignas(64) unsigned char bytes[8][16][64];
  TileConfig config;
  bool live = false;
};
thread_local Tiles tiles;

inline void tile_configure(const TileConfig& config) {
  tiles.config = config;
  tiles.live = true;
  std::memset(tiles.bytes, 0, sizeof(tiles.bytes));
}

template <int kTile>
void tile_zero() {
  ASHLAR_CHECK(tiles.live);
  std::memset(tiles.bytes[kTile], 0, sizeof(tiles.bytes[kTile]));
}
template <int kTile>
void tile_load(const void* p, int64_t stride) {
  tile_zero<kTile>();
  for (int r = 0; r < tiles.config.rows[kTile]; ++r) {
    std::memcpy(tiles.bytes[kTile][r], static_cast<const char*>(p) + r * stride, tiles.config.bytes_per_row[kTile]);
  }
}
template <int kTile>
void tile_store(void* p, int64_t stride) {
  ASHLAR_CHECK(tiles.live);
  for (int r = 0; r < tiles.config.rows[kTile]; ++r) {
    std::memcpy(static_cast<char*>(p) + r * stride, tiles.bytes[kTile][r], tiles.config.bytes_per_row[kTile]);
  }
}
template <int kC, int kA, int kB>
void tile_multiply() {
  ASHLAR_CHECK(tiles.config.rows[kC] == tiles.config.rows[kA]);
  for (int m = 0; m < tiles.config.rows[kC]; ++m) {
    for (int n = 0; n < 16; ++n) {
      float sum;
      std::memcpy(&sum, &tiles.bytes[kC][m][4 * n], 4);
      for (int p = 0; p < tiles.config.rows[kB]; ++p) {
        for (int half = 0; half < 2; ++half) {
          BFloat16 a;
          BFloat16 b;
          std::memcpy(&a, &tiles.bytes[kA][m][4 * p + 2 * half], 2);
          std::memcpy(&b, &tiles.bytes[kB][p][4 * n + 2 * half], 2);
          sum += to_float(a) * to_float(b);
        }
      }
      std::memcpy(&tiles.bytes[kC][m][4 * n], &sum, 4);
    }
  }
}

template <int kC, int kA, int kB>
void tile_multiply_int8() {
  ASHLAR_CHECK(tiles.config.rows[kC] == tiles.config.rows[kA]);
  for (int m = 0; m < tiles.config.rows[kC]; ++m) {
    for (int n = 0; n < 16; ++n) {
      int32_t sum;
      std::memcpy(&sum, &tiles.bytes[kC][m][4 * n], 4);
      for (int q = 0; q < tiles.config.rows[kB]; ++q) {
        for (int i = 0; i < 4; ++i) {
          sum +=
              static_cast<int8_t>(tiles.bytes[kA][m][4 * q + i]) * static_cast<int8_t>(tiles.bytes[kB][q][4 * n + i]);
        }
      }
      std::memcpy(&tiles.bytes[kC][m][4 * n], &sum, 4);
    }
  }
}

inline void narrow_depth(const float* x, uint16_t* to) {
  for (int i = 0; i < 32; ++i) to[i] = to_bf16(x[i]).bits;
}

inline void narrow(F v, uint16_t* to) {
  for (int i = 0; i < kLanes; ++i) to[i] = to_bf16(v[i]).bits;
}

inline void mask_pairs(const uint16_t* pairs, uint32_t mask, uint16_t* to) {
  for (int i = 0; i < 32; ++i) to[i] = static_cast<uint16_t>(pairs[i] & (mask >> (i % 2 * 16)));
}

inline void split_bf16(F v, uint16_t* high, uint16_t* low) {
  for (int i = 0; i < kLanes; ++i) {
    high[i] = to_bf16(v[i]).bits;
    low[i] = to_bf16(v[i] - to_float(BFloat16{high[i]})).bits;
  }
}

inline void split_int8(F v, int8_t* high, int8_t* low) {
  for (int i = 0; i < kLanes; ++i) {
    const long whole = std::lrint(v[i]);
    high[i] = static_cast<int8_t>((whole + 64) >> 7);
    low[i] = static_cast<int8_t>(whole - 128 * high[i]);
  }
}

inline void store_int8(F v, int8_t* to) {
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<int8_t>(std::lrint(v[i]));
}

inline void widen_e4m3_pairs(const uint8_t* even, const uint8_t* odd, uint16_t* to) {
  for (int i = 0; i < kBlockColumns; i += kLanes) {
    const F first = widen_e4m3(even + i), second = widen_e4m3(odd + i);
    for (int lane = 0; lane < kLanes; ++lane) {
      to[2 * (i + lane)] = to_bf16(first[lane]).bits;
      to[2 * (i + lane) + 1] = to_bf16(second[lane]).bits;
    }
  }
}

inline F reciprocal(F v) { return set1(1) / v; }

inline F load_int32(const int32_t* p) {
  F v;
  for (int i = 0; i < kLanes; ++i) v[i] = static_cast<float>(p[i]);
  return v;
}

inline F load_half(const uint16_t* p) {
  F v;
  for (int i = 0; i < kLanes; ++i) v[i] = to_float(Float16{p[i]});
  return v;
}

inline void split_nibbles(const std::byte* pairs, std::byte* bytes) {
  for (int i = 0; i < 256; ++i) {
    bytes[i] = pairs[i] & std::byte{15};
    bytes[256 + i] = pairs[i] >> 4;
  }
}

/// A tile of bf16 out of a group's numbers, of 8 bits times 2^24.
template <int kBits>
void widen_pairs(const std::byte* weights, uint16_t* tile) {
  for (int i = 0; i < 32; ++i) {
    for (int c = 0; c < kBlockColumns; ++c) {
      const int at = (i % (kBits == 4 ? 16 : 32)) / 4 * 64 + c * 4 + i % 4;
      const int byte = static_cast<int>(weights[at]);
      const int nibble = i < 16 ? byte & 15 : byte >> 4;
      const float number = kBits == 4 ? static_cast<float>(nibble) : static_cast<float>(static_cast<int8_t>(byte));
      tile[i / 2 * 32 + c * 2 + i % 2] = to_bf16(kBits == 4 ? number : number * (1 << 24)).bits;
    }
  }
}

// clang-format off
#include "device/cpu/linear/amx_linear.inc"
#include "device/cpu/linear/e4m3_amx.inc"
#include "device/cpu/quant/quantised_rows.inc"
#include "device/cpu/quant/amx_quantised.inc"
#include "device/cpu/quant/grouped_rows.inc"
#include "device/cpu/quant/grouped_parts.inc"
#include "device/cpu/quant/grouped_amx.inc"
#include "device/cpu/quant/grouped_tiles.inc"
#include "device/cpu/isa/rowwise.inc"
#include "device/cpu/linear/amx_activation.inc"
#include "device/cpu/linear/amx_gated.inc"
#include "device/cpu/attention/attention_segment.inc"
#include "device/cpu/attention/amx_attention.inc"
// clang-format on

template <int kBits>
void pack_groups(const float* x, int64_t stride, int32_t rows, int32_t k, void* packed) {
  const int64_t depth = grouped_depth(k);
  auto* to = static_cast<int8_t*>(packed);
  auto* groups = reinterpret_cast<RowGroup*>(to + 2 * kGroupedRows * depth);
  for (int32_t row = 0; row < rows; ++row, to += 2 * depth) {
    for (int64_t at = 0; at < depth; at += kGroup, ++groups) {
      *groups = round_group<kBits>(x + row * stride + at, k - static_cast<int32_t>(at), to, at, depth);
    }
  }
}

/// Of either form of rows.
inline int64_t packed_group_bytes(int32_t k) {
  const int64_t depth = grouped_depth(k);
  return kGroupedRows * (2 * depth + depth / kGroup * static_cast<int64_t>(sizeof(RowGroup))) + wide_packed_bytes(k);
}

/// A single block multiplies bytes, several bf16: to the same bits.
template <int kBits>
void multiply_groups(const LinearCall& call) {
  if (call.blocks > 1) return wide_linear<kBits>(call);
  grouped_tile_linear<kBits>(call);
}

}  // namespace ashlar::cpu::amx_emulated
