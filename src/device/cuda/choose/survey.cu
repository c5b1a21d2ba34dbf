// SPDX-License-Identifier: Apache-2.0
// What the host needs to know of a row of logits to choose a token: sums over it, and the few tokens that may be chosen. A
// row is cut into parts by its length alone, and sums have one order, so that what is found depends on the row only.
//
// Three kernels, each over all parts side by side: the highest logit; sums relative to it, over the row and up to each of
// kBars distances from it; then the list, down to the first of these distances that has what was asked for.

#include "noise.cuh"
#include "survey.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = kSurveyThreads;
constexpr int kWarps = kThreads / 32;
constexpr int kBars = 64;   ///< two a lane
constexpr float kNoiseError = 1e-3F;  ///< scores differ from the host's by less than half of it

/// Distances from the highest logit: 0, then a geometric series up to 40, beyond which no token matters.
__device__ __forceinline__ float bar(int i) { return i == 0 ? 0.0F : 40 * exp2f(-0.215F * static_cast<float>(kBars - 1 - i)); }

struct PartSums {
  float sum, tempered, best;  ///< best: the highest score with noise
  int32_t above;              ///< columns before the one that was given, by logit
  double weight;              ///< by mass: `tempered`, exactly
  float masses[kBars];
  int32_t counts[kBars];
};

struct Scratch {
  uint64_t* highest;  ///< [rows, kParts]
  PartSums* sums;     ///< [rows, kParts]
};

__device__ __forceinline__ float row_highest(const Scratch& scratch) {
  const uint64_t key = warp_highest(scratch.highest[blockIdx.x * kParts + threadIdx.x % 32]);
  return key != 0 ? value_of(key) : CUDART_INF_F;
}

__device__ __forceinline__ float word_of(const uint4& words, int i) {
  return gumbel_about(i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w);
}

__global__ void __launch_bounds__(kThreads) highest_kernel(Matrix logits, Matrix adjusted, const SurveyCall* calls, Scratch scratch) {
  __shared__ uint64_t keys[kWarps];
  begin_kernel();
  const Range range(logits, adjusted, calls[blockIdx.x]);
  uint64_t best = 0;
  for (int32_t i = range.begin + static_cast<int32_t>(threadIdx.x); i < range.end; i += kThreads) {
    best = max_of(best, key_of(range.at(i), i));
  }
  best = warp_highest(best);
  if (threadIdx.x % 32 == 0) keys[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kWarps; ++w) best = max_of(best, keys[w]);
  scratch.highest[blockIdx.x * kParts + blockIdx.y] = best;
}

__global__ void __launch_bounds__(kThreads) sums_kernel(Matrix logits, Matrix adjusted, const SurveyCall* calls, Scratch scratch, Survey* out) {
  __shared__ float of_warps[kWarps][3];
  __shared__ int32_t above_of_warps[kWarps];
  __shared__ double weights[kWarps];
  __shared__ float masses[kWarps][kBars];
  __shared__ int32_t counts[kWarps][kBars];
  begin_kernel();
  const SurveyCall call = calls[blockIdx.x];
  const Range range(logits, adjusted, call);
  const float highest = row_highest(scratch);
  const bool is_none = isinf(highest);
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    out[blockIdx.x].n = is_none ? Survey::kMost + 1 : 0;
    out[blockIdx.x].highest = highest;
  }
  if (is_none) return;
  const auto lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const float scale = call.least > 0 ? 1.0F : call.inverse;
  const float low = bar(lane), high = bar(lane + 32);
  const float limit = call.by_mass != 0 ? -1.0F : call.least > 0 ? CUDART_INF_F : fminf(call.floor, bar(kBars - 1));
  const float given = call.given >= 0 ? range.any(call.given) : CUDART_INF_F;
  float sum = 0, tempered = 0, best = -CUDART_INF_F;
  int32_t above = 0;
  double weight = 0;
  float low_mass = 0, high_mass = 0;
  int32_t low_count = 0, high_count = 0;
  for (int32_t first = range.begin; first < range.end; first += 4 * kThreads) {
    const int32_t mine = first + 4 * static_cast<int32_t>(threadIdx.x);
    uint4 words = {};
    if (call.with_noise != 0 && mine < range.end) {
      words = noise_words(call.seed, call.position, static_cast<uint32_t>(mine) / 4);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float distance = highest - range.at(mine + c);
      if (call.by_mass != 0) weight += weight_of(call, highest, range.at(mine + c)).e;
      if (call.given >= 0 && mine + c < range.end) {
        const float value = range.any(mine + c);
        if (mine + c < call.given ? value >= given : value > given) ++above;
      }
      const bool counts_here = distance < CUDART_INF_F;
      const float e = counts_here ? exp2f(-distance * CUDART_L2E_F) : 0.0F;
      sum += e;
      if (call.with_noise != 0) {
        if (counts_here) best = fmaxf(best, word_of(words, c) - distance * call.inverse);
        continue;
      }
      const float scaled = distance * scale, mass = counts_here ? exp2f(-scaled * CUDART_L2E_F) : 0.0F;
      tempered += mass;
      // Each lane looks at the numbers of all lanes: sums that way have one order, without atomics.
      for (unsigned left = __ballot_sync(~0u, counts_here && scaled <= limit); left != 0; left &= left - 1) {
        const int from = __ffs(static_cast<int>(left)) - 1;
        const float its_distance = __shfl_sync(~0u, scaled, from), its_mass = __shfl_sync(~0u, mass, from);
        if (its_distance <= low) low_mass += its_mass, ++low_count;
        if (its_distance <= high) high_mass += its_mass, ++high_count;
      }
    }
  }
  masses[warp][lane] = low_mass, masses[warp][lane + 32] = high_mass;
  counts[warp][lane] = low_count, counts[warp][lane + 32] = high_count;
  sum = warp_sum(sum), tempered = warp_sum(tempered), best = warp_max(best), above = __reduce_add_sync(~0u, above);
  for (int distance = 16; distance > 0; distance /= 2) weight += __shfl_xor_sync(~0u, weight, distance);
  if (lane == 0) weights[warp] = weight;
  if (lane == 0) of_warps[warp][0] = sum, of_warps[warp][1] = tempered, of_warps[warp][2] = best, above_of_warps[warp] = above;
  __syncthreads();
  PartSums& part = scratch.sums[blockIdx.x * kParts + blockIdx.y];
  if (threadIdx.x == 0) {
    for (int w = 1; w < kWarps; ++w) {
      sum += of_warps[w][0], tempered += of_warps[w][1], best = fmaxf(best, of_warps[w][2]), above += above_of_warps[w];
      weight += weights[w];
    }
    part.sum = sum, part.tempered = tempered, part.best = best, part.above = above, part.weight = weight;
  }
  if (threadIdx.x < kBars) {
    float mass = 0;
    int32_t count = 0;
    for (int w = 0; w < kWarps; ++w) mass += masses[w][threadIdx.x], count += counts[w][threadIdx.x];
    part.masses[threadIdx.x] = mass, part.counts[threadIdx.x] = count;
  }
}

__global__ void __launch_bounds__(kThreads) list_kernel(Matrix logits, Matrix adjusted, const SurveyCall* calls, Scratch scratch, MassScratch of_mass, Survey* out, Listed* rest) {
  __shared__ int first_enough;
  begin_kernel();
  const SurveyCall call = calls[blockIdx.x];
  const Range range(logits, adjusted, call);
  const float highest = row_highest(scratch);
  if (isinf(highest)) return;
  Survey& found = out[blockIdx.x];
  const PartSums* const parts = scratch.sums + blockIdx.x * kParts;
  if (threadIdx.x == 0) first_enough = kBars;
  __syncthreads();
  double tempered = 0;
  for (int p = 0; p < kParts; ++p) tempered += call.by_mass != 0 ? parts[p].weight : parts[p].tempered;
  const float best = warp_max(parts[threadIdx.x % 32].best);
  if (threadIdx.x < kBars && call.with_noise == 0) {
    double mass = 0;
    int32_t count = 0;
    for (int p = 0; p < kParts; ++p) mass += parts[p].masses[threadIdx.x], count += parts[p].counts[threadIdx.x];
    const bool enough = call.least > 0 ? count >= call.least
                                       : mass >= call.share * tempered || bar(static_cast<int>(threadIdx.x)) >= call.floor;
    if (enough) atomicMin(&first_enough, static_cast<int>(threadIdx.x));
  }
  __syncthreads();
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    double sum = 0;
    int32_t above = 0;
    for (int p = 0; p < kParts; ++p) sum += parts[p].sum, above += parts[p].above;
    found.sum = sum, found.tempered = tempered;
    if (call.given >= 0) {
      found.rank = above + 1;
      found.given = range.any(call.given);
      found.given_raw = range.raw[call.given];
      found.given_q = call.draft_q != nullptr ? call.draft_q[call.given] : 1.0F;
    }
  }
  const auto thread = static_cast<int32_t>(blockIdx.y * kThreads + threadIdx.x);
  if (call.distribution != nullptr) {
    for (int32_t i = thread; i < call.distribution_size; i += kParts * kThreads) call.distribution[i] = 0;
  }
  if (call.by_mass != 0) {
    if (thread < kMassBins) of_mass.bins[int64_t{blockIdx.x} * kMassBins + thread] = 0;
    return;
  }
  const float furthest = first_enough < kBars ? bar(first_enough) : CUDART_INF_F;
  const float scale = call.least > 0 ? 1.0F : call.inverse;
  for (int32_t mine = range.begin + 4 * static_cast<int32_t>(threadIdx.x); mine < range.end; mine += 4 * kThreads) {
    uint4 words = {};
    if (call.with_noise != 0) words = noise_words(call.seed, call.position, static_cast<uint32_t>(mine) / 4);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float value = range.at(mine + c), distance = highest - value;
      if (!(distance < CUDART_INF_F)) continue;
      const bool listed = call.with_noise != 0 ? word_of(words, c) - distance * call.inverse >= best - kNoiseError
                                               : distance * scale <= furthest;
      if (!listed) continue;
      append(call, range, mine + c, found, rest);
    }
  }
}

}  // namespace

size_t survey_bytes(int32_t n, bool any_by_mass) {
  const size_t of_mass = any_by_mass ? sizeof(uint64_t) * kMassBins + sizeof(uint64_t) : 0;  // of a row's choice: a half
  return ((sizeof(uint64_t) + sizeof(PartSums)) * kParts + of_mass) * static_cast<size_t>(n);
}

void survey(cudaStream_t stream, const Matrix& logits, const Matrix& adjusted, const SurveyCall* calls, int32_t n,
            bool any_by_mass, void* scratch, Survey* out, Listed* rest) {
  static_assert(sizeof(PartSums) % 8 == 0 && kMassBins <= kParts * kThreads);
  auto* const highest = static_cast<uint64_t*>(scratch);
  const size_t of_parts = static_cast<size_t>(n) * kParts;
  const Scratch parts = {highest, reinterpret_cast<PartSums*>(highest + of_parts)};
  auto* const bins = reinterpret_cast<unsigned long long*>(parts.sums + of_parts);
  const MassScratch of_mass = {bins, reinterpret_cast<int32_t*>(bins + static_cast<size_t>(n) * kMassBins)};
  const Blocks blocks = {dim3(static_cast<unsigned>(n), kParts), kThreads};
  start(stream, blocks, highest_kernel, logits, adjusted, calls, parts);
  start(stream, blocks, sums_kernel, logits, adjusted, calls, parts, out);
  start(stream, blocks, list_kernel, logits, adjusted, calls, parts, of_mass, out, rest);
  if (any_by_mass) draw_by_mass(stream, logits, adjusted, calls, n, of_mass, out, rest);
}

}  // namespace ashlar::cuda
