// Ops that end in tokens. Logits are decided by the host's own code, row by row on its threads, so that answers are
// those of the other devices for the same logits.

#include <algorithm>
#include <limits>

#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"
#include "device/sampling/choose_row.h"

namespace ashlar::cuda {
namespace {

constexpr size_t kLogitBytes = size_t{64} << 20;  // of logits that no caller keeps, at a time

}  // namespace

template <class Work>
void CudaOps::for_logits(const Weight& weight, Tensor x, const Work& work) {
  const size_t row_bytes = sizeof(float) * static_cast<size_t>(weight.n());
  const auto most = static_cast<int32_t>(std::max(kLogitBytes / row_bytes, size_t{1}));
  for (int32_t first = 0; first < x.rows; first += most) {
    const int32_t rows = std::min(most, x.rows - first);
    const Tensor logits = {logits_.reserve(row_bytes * static_cast<size_t>(rows)), rows, weight.n(), weight.n()};
    linear(weight, x.part(first, rows), Store::kOverwrite, logits);
    work(first, logits);
  }
}

void CudaOps::linear_argmax(const Weight& weight, Tensor x, int32_t* ids) {
  for_logits(weight, x, [&](int32_t first, Tensor logits) {
    const Matrix rows = {logits.data, logits.rows, logits.cols, logits.stride, true};
    argmax(memory_.stream(), rows, answers_.reserve(argmax_bytes(rows)), ids + first);
    check_launch("argmax");
  });
}

// On the host, whose exponentials they are made of.
void CudaOps::linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) {
  std::vector<RowStatistics> statistics;
  for_logits(weight, x, [&](int32_t first, Tensor rows) {
    const auto cols = static_cast<size_t>(rows.cols), n = static_cast<size_t>(rows.rows);
    rows_.resize(n * cols);
    statistics.resize(n);
    memory_.download(static_cast<const std::byte*>(rows.data), rows_.data(), sizeof(float) * rows_.size());
    pool_.run(rows.rows, [&](int32_t r, int32_t) {
      float* const row = rows_.data() + static_cast<size_t>(r) * cols;
      if (without >= 0) row[without] = -std::numeric_limits<float>::infinity();
      statistics[static_cast<size_t>(r)] = row_statistics(row, rows.cols);
    });
    memory_.upload(statistics.data(), reinterpret_cast<std::byte*>(out + first), sizeof(RowStatistics) * n);
  });
}

void CudaOps::choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  if (requests.empty()) return;
  const auto cols = static_cast<size_t>(logits.cols);
  const auto [first, last] = std::minmax_element(
      requests.begin(), requests.end(), [](const RowRequest& a, const RowRequest& b) { return a.row < b.row; });
  const auto n = static_cast<size_t>(last->row - first->row) + 1;
  const auto stride = static_cast<size_t>(logits.stride);
  rows_.resize((n - 1) * stride + cols);
  memory_.download(reinterpret_cast<const std::byte*>(logits.row(first->row)), rows_.data(),
                   sizeof(float) * rows_.size());

  // Distributions that lie on the GPU, read or written.
  std::vector<RowRequest> local(requests.begin(), requests.end());
  size_t size = 0;
  const auto entries = [cols](const RowRequest& request) {
    return request.distribution != nullptr ? static_cast<size_t>(request.distribution_size)
                                           : (request.draft_q != nullptr ? cols : 0);
  };
  for (const RowRequest& request : requests) size += entries(request);
  distributions_.resize(size);
  size = 0;
  for (RowRequest& request : local) {
    request.row -= first->row;  // of the copy
    float* const mine = distributions_.data() + size;
    size += entries(request);
    if (request.draft_q != nullptr) {
      memory_.download(reinterpret_cast<const std::byte*>(request.draft_q), mine, sizeof(float) * cols);
      request.draft_q = mine;
    }
    if (request.distribution != nullptr) request.distribution = mine;
  }

  choose_rows(*this, rows_.data(), logits.stride, logits.cols, local, choices, sampler_scratch_);
  for (size_t i = 0; i < local.size(); ++i) {
    if (requests[i].distribution == nullptr) continue;
    memory_.upload(local[i].distribution, reinterpret_cast<std::byte*>(requests[i].distribution),
                   sizeof(float) * static_cast<size_t>(requests[i].distribution_size));
  }
}

void CudaOps::for_each(int32_t n, void (*fn)(void*, int32_t), void* context) {
  pool_.run_throwing(n, [=](int32_t item) { fn(context, item); });
}

}  // namespace ashlar::cuda
