// SPDX-License-Identifier: Apache-2.0
#include "device/host_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/machine/available_memory.h"
#include "base/row_math.h"
#include "device/sampling/choose_row.h"

namespace ashlar {

AvailableMemory Ops::available_memory() const { return ashlar::available_memory(); }

void HostOps::visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) {
  for (int32_t r = 0; r < rows.n; ++r) {
    const int32_t position = rows.positions[r];
    begin[r] = rows.first_keys[rows.tables[r]];
    end[r] = causal && !rows.is_without_kv(r) ? position + 1 : rows.block_ends[r];
    if (window == 0) continue;
    begin[r] = std::max(begin[r], position - window + 1);
    end[r] = std::min(end[r], position + window);
  }
}

void HostOps::scale(Tensor x, float factor) {
  for_each_item(*this, x.rows, [&](int32_t r) {
    float* const row = x.row(r);
    for (int32_t i = 0; i < x.cols; ++i) row[i] *= factor;
  });
}

void HostOps::softcap(Tensor x, float limit) {
  for_each_item(*this, x.rows, [&](int32_t r) {
    float* const row = x.row(r);
    for (int32_t i = 0; i < x.cols; ++i) row[i] = limit * std::tanh(row[i] / limit);
  });
}

void HostOps::find_candidates(Tensor logits, Candidates out) {
  for_each_item(*this, logits.rows, [&](int32_t r) {
    int32_t* const ids = out.ids + int64_t{r} * out.n;
    float* const values = out.logits + int64_t{r} * out.n;
    const int32_t found = top_k(logits.row(r), logits.cols, out.n, ids);
    for (int32_t i = 0; i < out.n; ++i) {
      if (i >= found) ids[i] = 0;
      values[i] = i < found ? logits.row(r)[ids[i]] : -std::numeric_limits<float>::infinity();
    }
  });
}

void HostOps::choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  choose_rows(*this, logits.row(0), logits.stride, logits.cols, requests, choices, scratch_);
}

// No bytes may come from a null pointer, which memcpy() is never to be given.
void HostOps::upload(const void* from, std::byte* to, size_t bytes) {
  std::copy_n(static_cast<const std::byte*>(from), bytes, to);
}

void HostOps::download(const std::byte* from, void* to, size_t bytes) {
  std::copy_n(from, bytes, static_cast<std::byte*>(to));
}

void HostOps::copy_bytes(const std::byte* from, std::byte* to, size_t bytes) { std::copy_n(from, bytes, to); }

}  // namespace ashlar
