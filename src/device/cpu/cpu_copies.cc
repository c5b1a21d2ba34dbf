// SPDX-License-Identifier: Apache-2.0
// Rows that go to other places as they are.

#include <cstring>

#include "device/cpu/cpu_ops.h"

namespace ashlar::cpu {
namespace {

void copy_one_row(Tensor x, int32_t from, Tensor out, int32_t to) {
  std::memcpy(out.row(to), x.row(from), sizeof(float) * static_cast<size_t>(out.cols));
}

}  // namespace

void CpuOps::gather_rows(Tensor x, const int32_t* indices, Tensor out) {
  for (int32_t r = 0; r < out.rows; ++r) ASHLAR_CHECK(indices[r] >= 0 && indices[r] < x.rows);
  for_rows(out.rows, out.cols / 8, [&](int32_t r) { copy_one_row(x, indices[r], out, r); });
}

void CpuOps::copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) {
  for (int32_t i = 0; i < n; ++i) {
    ASHLAR_CHECK(from[i] >= 0 && from[i] < x.rows && to[i] >= 0 && to[i] < out.rows);
  }
  for_rows(n, out.cols / 8, [&](int32_t i) { copy_one_row(x, from[i], out, to[i]); });
}

void CpuOps::copy(Tensor x, Tensor out) {
  for_rows(out.rows, out.cols / 8, [&](int32_t r) { copy_one_row(x, r, out, r); });
}

}  // namespace ashlar::cpu
