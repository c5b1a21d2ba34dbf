// SPDX-License-Identifier: Apache-2.0
#pragma once
// A page's keys or values from codes (coded_pages.h) to bf16, in the layout of attention's kernels.

#include <cstdint>

namespace ashlar::cpu {

/// Codes of the keys or values of one head in a page.
struct CodedTokens {
  const uint8_t* codes;
  const float* scales;  ///< [kPageTokens]
  int32_t head_dim;
  const float* levels;  ///< KvCodec::levels
};

/// To [head_dim / 2][kPageTokens][2] and [padded head_dim / 16][kPageTokens / 2][16][2]; zeros in dimensions that only
/// pad. Each number is the product of value and scale in fp32, rounded to the nearest bf16: the same on every machine.
/// bits: of keys 8 or 6, of values 8 or 4.
void decode_keys(const CodedTokens& from, int32_t bits, uint16_t* to);
void decode_values(const CodedTokens& from, int32_t bits, uint16_t* to);

}  // namespace ashlar::cpu
