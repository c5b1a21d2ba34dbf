#include "device/host_ops.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "device/sampling/choose_row.h"

namespace ashlar {

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

void HostOps::softcap(Tensor x, float limit) {
  struct Cap {
    Tensor x;
    float limit;
  } cap = {x, limit};
  for_each(
      x.rows,
      [](void* context, int32_t r) {
        const auto& c = *static_cast<const Cap*>(context);
        float* const row = c.x.row(r);
        for (int32_t i = 0; i < c.x.cols; ++i) row[i] = c.limit * std::tanh(row[i] / c.limit);
      },
      &cap);
}

// As many workers as there are rows take the next one each, so that each has the scratch of one thread.
void HostOps::choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  if (requests.empty()) return;
  struct Rows {
    Tensor logits;
    std::span<const RowRequest> requests;
    std::span<RowChoice> choices;
    std::span<SamplerScratch> scratch;
    std::atomic<size_t> next = 0;
  } rows = {logits, requests, choices, {}};
  scratch_.resize(static_cast<size_t>(threads()));
  for (SamplerScratch& scratch : scratch_) scratch.reserve(logits.cols);
  rows.scratch = scratch_;
  for_each(
      static_cast<int32_t>(std::min(requests.size(), scratch_.size())),
      [](void* context, int32_t worker) {
        auto& r = *static_cast<Rows*>(context);
        for (size_t i = r.next++; i < r.requests.size(); i = r.next++) {
          const RowRequest& request = r.requests[i];
          r.choices[i] =
              choose_row(r.logits.row(request.row), r.logits.cols, request, r.scratch[static_cast<size_t>(worker)]);
        }
      },
      &rows);
}

void HostOps::upload(const void* from, std::byte* to, size_t bytes) { std::memcpy(to, from, bytes); }

void HostOps::download(const std::byte* from, void* to, size_t bytes) { std::memcpy(to, from, bytes); }

void HostOps::copy_bytes(const std::byte* from, std::byte* to, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace ashlar
