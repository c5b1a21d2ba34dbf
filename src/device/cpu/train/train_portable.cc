// SPDX-License-Identifier: Apache-2.0
// Training on plain x86-64 (or anything the compiler knows): four lanes, sixteen registers.

#include <array>
#include <utility>

#include "device/cpu/isa/isa_common.h"
#include "device/cpu/train/train_kernels.h"

namespace ashlar::cpu {
namespace train_portable {

// Without a fused multiply-add a product needs a register of its own.
inline constexpr int32_t kTileRows = 5;
inline constexpr int32_t kStridedRows = 5;

// clang-format off
#include "device/cpu/isa/vec_portable.inc"
ASHLAR_INLINE F square_root(F v) {
  for (int i = 0; i < kLanes; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
}
#include "device/cpu/isa/rowwise.inc"
#include "device/cpu/train/tile.inc"
#include "device/cpu/train/train_rowwise.inc"
// clang-format on

}  // namespace train_portable

const TrainKernels& portable_train_kernels() {
  static constexpr TrainKernels kKernels = train_portable::train_kernels("portable");
  return kKernels;
}

}  // namespace ashlar::cpu
