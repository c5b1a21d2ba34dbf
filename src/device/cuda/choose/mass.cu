// SPDX-License-Identifier: Apache-2.0
// Draws from the whole of a distribution: the tokens about which the cumulative mass, the likeliest first, reaches a share.
//
// Masses are added up as integers, whose sums do not depend on an order, by the distance from the highest logit; then the
// columns of the bin in which the share is reached are listed. Integers are masses to 2^-45 of the largest.

#include "survey.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = kSurveyThreads;
constexpr double kUnit = 17592186044416.0;  ///< 2^44: 2^18 columns of mass 1 stay below 2^62

struct Weighed {
  float e = 0;      ///< 0: not kept
  double mass = 0;  ///< of e, or what is left of it
  int bin = -1;
};

__device__ __forceinline__ Weighed weigh(const SurveyCall& call, const Survey& found, float value, int32_t column) {
  Weighed weighed;
  const Weight weight = weight_of(call, found.highest, value);
  if (!(weight.e > 0)) return weighed;
  weighed.mass = weighed.e = weight.e;
  if (call.less_draft != 0) {
    const double q = call.draft_q != nullptr ? call.draft_q[column] : column == call.given ? 1.0 : 0.0;
    weighed.mass = fmax(weighed.mass - q * found.tempered, 0.0);
  }
  weighed.bin = min(static_cast<int>(-weight.distance * (kMassBins / kFurthest)), kMassBins - 1);
  return weighed;
}

__device__ __forceinline__ bool is_by_mass(const SurveyCall& call, const Survey& found) {
  return call.by_mass != 0 && found.n <= Survey::kMost;
}

__global__ void __launch_bounds__(kThreads)
    mass_kernel(Matrix logits, Matrix adjusted, const SurveyCall* calls, MassScratch scratch, const Survey* out) {
  __shared__ unsigned long long bins[kMassBins];
  begin_kernel();
  const SurveyCall call = calls[blockIdx.x];
  const Survey& found = out[blockIdx.x];
  if (!is_by_mass(call, found)) return;
  const Range range(logits, adjusted, call);
  for (int i = static_cast<int>(threadIdx.x); i < kMassBins; i += kThreads) bins[i] = 0;
  __syncthreads();
  for (int32_t i = range.begin + static_cast<int32_t>(threadIdx.x); i < range.end; i += kThreads) {
    const Weighed weighed = weigh(call, found, range.at(i), i);
    const unsigned long long mass = __double2ull_rn(weighed.mass * kUnit);
    if (mass != 0) atomicAdd(bins + weighed.bin, mass);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kMassBins; i += kThreads) {
    if (bins[i] != 0) atomicAdd(scratch.bins + int64_t{blockIdx.x} * kMassBins + i, bins[i]);
  }
}

/// A block has a row.
__global__ void __launch_bounds__(kThreads) find_kernel(const SurveyCall* calls, MassScratch scratch, Survey* out) {
  constexpr int kEach = kMassBins / kThreads;
  __shared__ unsigned long long sums[kThreads];
  begin_kernel();
  const SurveyCall call = calls[blockIdx.x];
  Survey& found = out[blockIdx.x];
  if (!is_by_mass(call, found)) return;
  const unsigned long long* const bins = scratch.bins + int64_t{blockIdx.x} * kMassBins;
  unsigned long long sum = 0;
  for (int i = 0; i < kEach; ++i) sum += bins[threadIdx.x * kEach + static_cast<unsigned>(i)];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned long long all = 0, before = 0;
  for (int t = 0; t < kThreads; ++t) all += sums[t];
  const double wanted = call.at * static_cast<double>(all);
  int chosen = -1;
  const auto passes = [&](unsigned long long mass) { return static_cast<double>(before + mass) > wanted; };
  int t = 0;
  for (; t < kThreads && !passes(sums[t]); ++t) before += sums[t];
  for (int i = t * kEach; t < kThreads && i < (t + 1) * kEach && chosen < 0; ++i) {
    if (passes(bins[i])) {
      chosen = i;
    } else {
      before += bins[i];
    }
  }
  found.mass = static_cast<double>(all) / kUnit;
  found.before = static_cast<double>(before) / kUnit;
  scratch.chosen[blockIdx.x] = chosen;
  if (chosen < 0) found.n = Survey::kMost + 1;  // nothing has a mass
}

__global__ void __launch_bounds__(kThreads)
    list_bin_kernel(Matrix logits, Matrix adjusted, const SurveyCall* calls, MassScratch scratch, Survey* out, Listed* rest) {
  begin_kernel();
  const SurveyCall call = calls[blockIdx.x];
  Survey& found = out[blockIdx.x];
  // Not by the length of the list, which grows.
  if (call.by_mass == 0 || isinf(found.highest)) return;
  const Range range(logits, adjusted, call);
  const int chosen = scratch.chosen[blockIdx.x];
  if (chosen < 0) return;
  for (int32_t i = range.begin + static_cast<int32_t>(threadIdx.x); i < range.end; i += kThreads) {
    const Weighed weighed = weigh(call, found, range.at(i), i);
    if (weighed.bin == chosen) append(call, range, i, found, rest);
    if (call.distribution != nullptr) call.distribution[i] = static_cast<float>(weighed.e / found.tempered);
  }
}

__global__ void __launch_bounds__(kThreads) place_kernel(const Placed* places, int32_t n) {
  begin_kernel();
  const auto i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i < n) *places[i].to = places[i].value;
}

}  // namespace

void draw_by_mass(cudaStream_t stream, const Matrix& logits, const Matrix& adjusted, const SurveyCall* calls, int32_t n,
                  const MassScratch& scratch, Survey* out, Listed* rest) {
  const Blocks blocks = {dim3(static_cast<unsigned>(n), kParts), kThreads};
  start(stream, blocks, mass_kernel, logits, adjusted, calls, scratch, out);
  start(stream, {static_cast<unsigned>(n), kThreads}, find_kernel, calls, scratch, out);
  start(stream, blocks, list_bin_kernel, logits, adjusted, calls, scratch, out, rest);
}

void place(cudaStream_t stream, const Placed* places, int32_t n) {
  start(stream, {blocks_for(n, kThreads), kThreads}, place_kernel, places, n);
}

}  // namespace ashlar::cuda
