// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operand of LDTILECFG, palette 1 (Intel SDM volume 1, chapter 18).

#include <cstdint>

namespace ashlar::cpu {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

}  // namespace ashlar::cpu
