// SPDX-License-Identifier: Apache-2.0
#include "base/row_math.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

namespace ashlar {
namespace {

constexpr int32_t kGroup = 16;  // lanes of a sum
constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kLog2E = 1.44269504F;
constexpr float kLeast = -127.0F;  // the power of two that counts as nothing

}  // namespace

namespace row_math {
namespace plain {
constexpr int32_t kWidth = 4;
#include "base/row_math.inc"
}  // namespace plain

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int32_t kWidth = 8;
#include "base/row_math.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2")
namespace avx512 {
constexpr int32_t kWidth = 16;
#include "base/row_math.inc"
}  // namespace avx512
#pragma GCC pop_options
}  // namespace row_math

namespace {

bool runs_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

// Chosen without memory: the first call may come within a step, which allocates nothing.
const RowMath& fastest() {
  static const RowMath passes = runs_avx512() ? row_math::avx512::kPasses
                                : runs_avx2() ? row_math::avx2::kPasses
                                              : row_math::plain::kPasses;
  return passes;
}

}  // namespace

std::vector<RowMath> row_maths() {
  std::vector<RowMath> runnable;
  if (runs_avx512()) runnable.push_back(row_math::avx512::kPasses);
  if (runs_avx2()) runnable.push_back(row_math::avx2::kPasses);
  runnable.push_back(row_math::plain::kPasses);
  return runnable;
}

TopTwo top_two(const float* values, int32_t n) { return fastest().top_two(values, n); }

int32_t argmax(const float* values, int32_t n) { return fastest().argmax(values, n); }

int32_t first_of(const float* values, int32_t n, float value) { return fastest().first_of(values, n, value); }

int32_t top_k(const float* values, int32_t n, int32_t k, int32_t* indices) {
  return fastest().top_k(values, n, k, indices);
}

double exp_sum(const float* values, int32_t n, float highest, float inverse_temperature) {
  return fastest().exp_sum(values, n, highest, inverse_temperature);
}

double rough_exp_sum(const float* values, int32_t n, float highest) {
  return fastest().rough_exp_sum(values, n, highest);
}

ExpMoments exp_moments(const float* values, int32_t n, float highest) {
  return fastest().exp_moments(values, n, highest);
}

}  // namespace ashlar
