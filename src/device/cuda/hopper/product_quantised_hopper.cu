// SPDX-License-Identifier: Apache-2.0
// Which instance of the product with a weight of few bits serves a call. Any may: it decides about time, not about
// bits.

#include <algorithm>

#include "product_quantised_hopper.cuh"
#include "row_map.cuh"

namespace ashlar::cuda {
namespace {

template <class Shape>
__global__ void __launch_bounds__(Shape::kMaxThreads, 1)
    product_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ ProductCall call, int stages,
                   bool squares) {
  extern __shared__ char raw[];
  Shape::run(call, &map, raw, stages, squares);
}

template <class Shape, int kTokens>
bool launch(cudaStream_t stream, const ProductCall& call, int32_t multiprocessors) {
  CUtensorMap map;
  if (!map_rows(call, kTokens, map)) return false;
  constexpr int kStages =
      std::min(16, (kMaxShared - Shape::shared_bytes(0)) / (Shape::shared_bytes(1) - Shape::shared_bytes(0)));
  static_assert(kStages >= 2);
  const int shared = shared_for(call, Shape::shared_bytes(kStages));
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, product_kernel<Shape>, kMaxShared);
  const int32_t items = (call.n + Shape::kFeatures - 1) / Shape::kFeatures * ((call.rows + kTokens - 1) / kTokens);
  const bool squares = call.finish != Finish::kFloat && call.width % 8 == 0 &&
                       reinterpret_cast<uintptr_t>(call.out) % 16 == 0 && call.out_stride % 8 == 0;
  constexpr int32_t kTogether = Shape::kClusterBlocks;
  const dim3 grid(static_cast<unsigned>(std::min(items, multiprocessors / kTogether) * kTogether));
  start(stream, {grid, Shape::kThreads, static_cast<size_t>(shared), kTogether}, product_kernel<Shape>, map, call,
        kStages, squares);
  return true;
}

/// Few rows: as many pipes as segments, eight of them in two blocks.
template <Packed kFormat, int kTokens>
bool launch_few(cudaStream_t stream, const ProductCall& call, int32_t multiprocessors) {
  switch (call.splits) {
    case 1:
      return launch<HopperQuantised<kFormat, kTokens, 1, 1, 1, false>, kTokens>(stream, call, multiprocessors);
    case 2:
      return launch<HopperQuantised<kFormat, kTokens, 1, 2, 1, false>, kTokens>(stream, call, multiprocessors);
    case 4:
      return launch<HopperQuantised<kFormat, kTokens, 1, 4, 1, false>, kTokens>(stream, call, multiprocessors);
    default:
      return launch<HopperQuantised<kFormat, kTokens, 2, 4, 1, false>, kTokens>(stream, call, multiprocessors);
  }
}

template <Packed kFormat>
bool launch_any(cudaStream_t stream, const ProductCall& call, int32_t multiprocessors) {
  if (call.rows <= 8) return launch_few<kFormat, 8>(stream, call, multiprocessors);
  if (call.rows <= 16) return launch_few<kFormat, 16>(stream, call, multiprocessors);
  // Tiles of 32 rows keep more blocks busy, tiles of 128 make values for more rows: whole waves of blocks times work.
  const auto waves = [&](int32_t rows, int32_t outputs) {
    const int32_t blocks = (call.rows + rows - 1) / rows * ((call.n + outputs - 1) / outputs);
    return static_cast<float>((blocks + multiprocessors - 1) / multiprocessors) * static_cast<float>(rows * outputs);
  };
  constexpr float kGain = 2.8F;  // of products a second, by the larger tile; measured
  if (call.rows <= 32 || waves(32, 64) * kGain < waves(128, 128)) {
    return launch_few<kFormat, 32>(stream, call, multiprocessors);
  }
  if (call.splits == 1) {
    return launch<HopperQuantised<kFormat, 128, 1, 1, 2, false>, 128>(stream, call, multiprocessors);
  }
  return launch<HopperQuantised<kFormat, 128, 1, 1, 2, true>, 128>(stream, call, multiprocessors);
}

}  // namespace

bool product_quantised_hopper(cudaStream_t stream, const ProductCall& call, int32_t multiprocessors) {
  const bool fits =
      call.group.rows == nullptr && reinterpret_cast<uintptr_t>(call.x) % 16 == 0 && call.x_stride % 8 == 0;
  if (!fits) return false;
  if (call.format == Packed::kInt4) return launch_any<Packed::kInt4>(stream, call, multiprocessors);
  if (call.format == Packed::kInt8) return launch_any<Packed::kInt8>(stream, call, multiprocessors);
  return launch_any<Packed::kE4M3>(stream, call, multiprocessors);
}

}  // namespace ashlar::cuda
