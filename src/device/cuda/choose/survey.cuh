// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernels of a survey share: how rows are cut, and where lists go.

#include "../kernels/keys.cuh"

namespace ashlar::cuda {

inline constexpr int kSurveyThreads = 256;
inline constexpr int kParts = 32;  ///< of a row, a block each; a lane each when they meet

/// The columns of a part, four neighbours a thread at a time, as noise comes.
struct Range {
  const float *raw, *values;
  int32_t begin, end, excluded;

  __device__ Range(const Matrix& logits, const Matrix& adjusted, const SurveyCall& call) {
    raw = values = static_cast<const float*>(logits.data) + call.row * logits.stride;
    if (call.adjusted >= 0) values = static_cast<const float*>(adjusted.data) + call.adjusted * adjusted.stride;
    const int32_t length = (logits.cols + 4 * kParts - 1) / (4 * kParts) * 4;
    begin = min(static_cast<int32_t>(blockIdx.y) * length, logits.cols);
    end = min(begin + length, logits.cols);
    excluded = call.excluded;
  }
  /// Of a column of the row, whether it is a number or not.
  __device__ float any(int32_t i) const { return i == excluded ? -CUDART_INF_F : values[i]; }
  /// Minus infinity where there is no such column in the part or it takes no part.
  __device__ float at(int32_t i) const {
    if (i >= end || i == excluded) return -CUDART_INF_F;
    const float value = values[i];
    return value > -CUDART_INF_F ? value : -CUDART_INF_F;  // not a number: no part
  }
};

/// What a column weighs at the temperature, as filter_candidates() has it: exact distances, exponentials rounded to fp32.
/// Zero where lowest_kept() keeps none.
struct Weight {
  float distance;  ///< from the highest, over the temperature: a number below 0
  float e;
};
inline constexpr float kFurthest = 40;
__device__ __forceinline__ Weight weight_of(const SurveyCall& call, float highest, float value) {
  const auto distance = static_cast<float>(value * call.exact_inverse - highest * call.exact_inverse);
  return {distance, distance >= -kFurthest ? static_cast<float>(exp(static_cast<double>(distance))) : 0.0F};
}

__device__ __forceinline__ void append(const SurveyCall& call, const Range& range, int32_t column, Survey& found, Listed* rest) {
  const int32_t at = atomicAdd(&found.n, 1);
  if (at >= Survey::kMost) return;
  Listed* const to = at < Survey::kFew ? found.few + at : rest + int64_t{blockIdx.x} * (Survey::kMost - Survey::kFew) + at - Survey::kFew;
  *to = {column, range.any(column), range.raw[column], call.draft_q != nullptr ? call.draft_q[column] : 0.0F};
}

/// Where draws by mass keep theirs: bins of distances from the highest logit.
inline constexpr int kMassBins = 4096;
struct MassScratch {
  unsigned long long* bins;  ///< [rows, kMassBins], zeroed by the survey's last kernel
  int32_t* chosen;           ///< [rows]
};
/// For the calls by mass: what the survey began, finished.
void draw_by_mass(cudaStream_t stream, const Matrix& logits, const Matrix& adjusted, const SurveyCall* calls, int32_t n,
                  const MassScratch& scratch, Survey* out, Listed* rest);

}  // namespace ashlar::cuda
