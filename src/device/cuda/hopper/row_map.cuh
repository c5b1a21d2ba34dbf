// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of x as the copy engine takes them to shared memory.

#include <cuda.h>

#include <algorithm>

#include "../kernels.h"

namespace ashlar::cuda {

using Encode = decltype(&cuTensorMapEncodeTiled);

inline Encode encode_function() {
  void* symbol = nullptr;
  cudaDriverEntryPointQueryResult result = {};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000, cudaEnableDefault, &result);
  return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(symbol) : nullptr;
}

/// Rows of x in boxes of 64 columns x `box` rows; what lies outside arrives as zeros.
inline bool map_rows(const ProductCall& call, int32_t box, CUtensorMap& map) {
  static const Encode encode = encode_function();
  if (encode == nullptr) return false;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(call.k),
                              static_cast<cuuint64_t>(std::max(call.rows, call.x_rows))};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(call.x_stride) * 2};
  const cuuint32_t boxes[] = {static_cast<cuuint32_t>(kTile), static_cast<cuuint32_t>(box)};
  const cuuint32_t steps[] = {1, 1};
  return encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(call.x), sizes, strides, boxes, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace ashlar::cuda
