// SPDX-License-Identifier: Apache-2.0
// Training on AVX2 with FMA: eight lanes, sixteen registers.

#include <array>
#include <utility>

#include "device/cpu/isa/isa_common.h"
#include "device/cpu/train/train_kernels.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
namespace ashlar::cpu {
namespace train_avx2 {

// Six rows of two vectors are twelve accumulators, and two vectors of b and one of a are the rest but one.
inline constexpr int32_t kTileRows = 6;
// One pointer a row, of which there are not many more.
inline constexpr int32_t kStridedRows = 6;

// clang-format off
#include "device/cpu/isa/vec_avx2.inc"
ASHLAR_INLINE F square_root(F v) { return _mm256_sqrt_ps(v); }
#include "device/cpu/isa/rowwise.inc"
#include "device/cpu/train/tile.inc"
#include "device/cpu/train/train_rowwise.inc"
// clang-format on

}  // namespace train_avx2
}  // namespace ashlar::cpu
#pragma GCC pop_options

namespace ashlar::cpu {

const TrainKernels& avx2_train_kernels() {
  static constexpr TrainKernels kKernels = train_avx2::train_kernels("avx2");
  return kKernels;
}

}  // namespace ashlar::cpu
