// SPDX-License-Identifier: Apache-2.0
// Training on AVX-512: sixteen lanes, thirty-two registers.

#include <array>
#include <utility>

#include "device/cpu/isa/isa_common.h"
#include "device/cpu/train/train_kernels.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi,bmi2")
namespace ashlar::cpu {
namespace train_avx512 {

// Fourteen rows of two vectors are 28 accumulators, and two vectors of b and one of a are the rest but one.
inline constexpr int32_t kTileRows = 14;
// One pointer a row, of which there are not many more.
inline constexpr int32_t kStridedRows = 8;

// clang-format off
#include "device/cpu/isa/vec_avx512.inc"
ASHLAR_INLINE F square_root(F v) { return _mm512_sqrt_ps(v); }
#include "device/cpu/isa/rowwise.inc"
#include "device/cpu/train/tile.inc"
#include "device/cpu/train/train_rowwise.inc"
// clang-format on

}  // namespace train_avx512
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

const TrainKernels& avx512_train_kernels() {
  static constexpr TrainKernels kKernels = train_avx512::train_kernels("avx512");
  return kKernels;
}

}  // namespace ashlar::cpu
