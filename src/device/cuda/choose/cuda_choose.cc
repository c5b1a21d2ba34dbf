// SPDX-License-Identifier: Apache-2.0
// Ops that end in tokens. Where the highest logits are all that matters, the GPU finds them. Of other rows it finds the
// few tokens that could be chosen and sums (survey.cu, mass.cu, statistics.cu), from which the host's own code chooses,
// on its threads, so that answers are those of the other devices for the same logits. Rows where too many tokens could
// be chosen come to the host whole.

#include <algorithm>
#include <cmath>
#include <functional>

#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"
#include "device/sampling/choose_row.h"

namespace ashlar::cuda {
namespace {

// Of logits that no caller keeps, at a time: 220 rows of a vocabulary of 150,000, which read the head once.
constexpr size_t kLogitBytes = size_t{128} << 20;
constexpr size_t kHostLogitBytes = size_t{64} << 20;  // of those that the host has, at a time

/// Whether the highest logits of the row as it is answer the request.
bool wants_highest(const RowRequest& request) {
  if (request.pick == Pick::kToken ? request.statistics || request.top_logprobs >= 0
                                   : request.pick != Pick::kLikeliest) {
    return false;
  }
  return request.params->takes_highest() && request.excluded < 0 && request.allowed.empty() && request.repeated < 0;
}

RowChoice choice_of(const RowRequest& request, const Highest& highest) {
  const auto id_of = [&](int32_t column) { return request.id_map != nullptr ? request.id_map[column] : column; };
  RowChoice choice;
  if (request.pick == Pick::kToken) {
    choice.token = highest.n > 0 ? id_of(highest.columns[0]) : request.id_map != nullptr ? id_of(0) : -1;
    return choice;
  }
  static_assert(Highest::kMost == LikeliestTokens::kMost);
  const double log_all = std::log(highest.sum);
  LikeliestTokens& likeliest = choice.likeliest;
  for (; likeliest.n < highest.n; ++likeliest.n) {
    const auto at = static_cast<size_t>(likeliest.n);
    likeliest.ids[at] = id_of(highest.columns[at]);
    likeliest.log_chance[at] =
        static_cast<float>(static_cast<double>(highest.logits[at]) - highest.logits[0] - log_all);
  }
  return choice;
}

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
  PassKey key(&weight, x.rows);
  key.add(x);
  key.add(ids);
  const auto pass = [&] {
    for_logits(weight, x, [&](int32_t first, Tensor logits) {
      const Matrix rows = {logits.data, logits.rows, logits.cols, logits.stride, true};
      argmax(memory_.stream(), rows, answers_.reserve(highest_bytes(rows.rows)), ids + first);
      check_launch("argmax");
    });
  };
  graphs_.run(key, std::ref(pass));
}

void CudaOps::linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) {
  for_logits(weight, x, [&](int32_t first, Tensor rows) {
    folder_.clear();
    for (int32_t r = 0; r < rows.rows; ++r) folder_.add(r, -1, without);
    folder_.run(matrix_of(rows), {}, pool_);
    memory_.upload(folder_.found().data(), reinterpret_cast<std::byte*>(out + first),
                   sizeof(RowStatistics) * folder_.found().size());
  });
}

void CudaOps::choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  highest_.clear();
  decided_.clear();
  surveyed_.clear();
  adjuster_.clear();
  surveyor_.clear();
  folder_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    const RowRequest& request = requests[i];
    const auto at = static_cast<int32_t>(i);
    if (wants_highest(request)) {
      highest_.push_back(at);
    } else if (const RowWishes wishes = wishes_of(request, logits.cols); !wishes.any) {
      decided_.push_back(at);
    } else {
      const int32_t adjusted = wishes.adjusted ? adjuster_.add(request, logits.cols) : -1;
      surveyed_.push_back({at, wishes.raw ? surveyor_.add(request, wishes.of_raw, -1) : -1,
                           wishes.likely ? surveyor_.add(request, wishes.of_likely, adjusted) : -1,
                           wishes.draw ? surveyor_.add(request, wishes.of_draw, adjusted) : -1,
                           wishes.statistics ? folder_.add(request.row, adjusted, request.excluded) : -1});
    }
  }
  if (!highest_.empty()) choose_highest(logits, requests, choices);
  if (!surveyed_.empty()) choose_surveyed(logits, requests, choices);
  // The host has rows of kHostLogitBytes at a time.
  const size_t row_bytes = sizeof(float) * static_cast<size_t>(logits.stride);
  const auto most = static_cast<int32_t>(std::max(kHostLogitBytes / row_bytes, size_t{1}));
  const std::span<const int32_t> decided = decided_;
  for (size_t first = 0; first < decided.size();) {
    int32_t low = requests[static_cast<size_t>(decided[first])].row, high = low;
    size_t last = first;
    for (; last < decided.size(); ++last) {
      const int32_t row = requests[static_cast<size_t>(decided[last])].row;
      if (std::max(high, row) - std::min(low, row) >= most) break;
      low = std::min(low, row), high = std::max(high, row);
    }
    choose_on_host(logits.part(low, high - low + 1), low, decided.subspan(first, last - first), requests, choices);
    first = last;
  }
}

/// Of the requests that highest_ names.
void CudaOps::choose_highest(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  const auto n = static_cast<int32_t>(highest_.size());
  const size_t of_parts = highest_bytes(n), of_rows = sizeof(Highest) * highest_.size();
  auto* const scratch =
      static_cast<std::byte*>(answers_.reserve(of_parts + of_rows + sizeof(int32_t) * highest_.size()));
  auto* const found = scratch + of_parts;
  rows_.clear();
  for (const int32_t i : highest_) rows_.push_back(requests[static_cast<size_t>(i)].row);
  memory_.upload(rows_.data(), found + of_rows, sizeof(int32_t) * rows_.size());
  PassKey key(scratch, n);
  key.add(logits);
  const auto pass = [&] {
    find_highest(memory_.stream(), {logits.data, logits.rows, logits.cols, logits.stride, true},
                 reinterpret_cast<const int32_t*>(found + of_rows), n, Highest::kMost, scratch,
                 reinterpret_cast<Highest*>(found));
    check_launch("find_highest");
  };
  graphs_.run(key, std::ref(pass));
  const auto* const highest = reinterpret_cast<const Highest*>(memory_.fetch(found, of_rows));
  for (size_t i = 0; i < highest_.size(); ++i) {
    const auto at = static_cast<size_t>(highest_[i]);
    choices[at] = choice_of(requests[at], highest[i]);
  }
}

/// Of the requests that surveyed_ names; those whose lists are not whole are left to the host.
void CudaOps::choose_surveyed(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  const Matrix rows = matrix_of(logits), adjusted = adjuster_.run(rows);
  surveyor_.run(rows, adjusted);
  folder_.run(rows, adjusted, pool_);
  const auto lists_of = [this](const Surveyed& of) {
    const auto list = [this](int32_t survey) { return survey >= 0 ? surveyor_.found(survey) : nullptr; };
    const RowStatistics* const statistics =
        of.statistics >= 0 ? &folder_.found()[static_cast<size_t>(of.statistics)] : nullptr;
    return RowLists{list(of.raw), list(of.likely), list(of.draw), statistics};
  };
  std::erase_if(surveyed_, [&](const Surveyed& of) {
    const auto is_whole = [this](int32_t survey) { return survey < 0 || surveyor_.found(survey) != nullptr; };
    if (is_whole(of.raw) && is_whole(of.likely) && is_whole(of.draw) && answers(lists_of(of))) return false;
    decided_.push_back(of.request);
    return true;
  });
  const auto n = static_cast<int32_t>(surveyed_.size());
  sampler_scratch_.resize(static_cast<size_t>(pool_.size()));
  drafted_.resize(surveyed_.size());
  pool_.run(n, [&](int32_t i, int32_t worker) {
    const Surveyed& of = surveyed_[static_cast<size_t>(i)];
    const auto at = static_cast<size_t>(of.request);
    SamplerScratch& scratch = sampler_scratch_[static_cast<size_t>(worker)];
    choices[at] = choose_listed(requests[at], logits.cols, lists_of(of), scratch);
    std::vector<Placed>& drafted = drafted_[static_cast<size_t>(i)];
    drafted.clear();
    if (requests[at].distribution == nullptr || !requests[at].params->filters()) return;
    for (const Candidate& candidate : scratch.candidates) {
      drafted.push_back({requests[at].distribution + candidate.id, static_cast<float>(candidate.probability)});
    }
  });
  placed_.clear();
  for (const std::vector<Placed>& of : drafted_) placed_.insert(placed_.end(), of.begin(), of.end());
  if (placed_.empty()) return;
  const size_t bytes = sizeof(Placed) * placed_.size();
  auto* const places = static_cast<std::byte*>(answers_.reserve(bytes));
  memory_.upload(placed_.data(), places, bytes);
  place(memory_.stream(), reinterpret_cast<const Placed*>(places), static_cast<int32_t>(placed_.size()));
  check_launch("place");
}

/// Of the requests that `which` names, about `logits`, whose first row is row `first` of the call.
void CudaOps::choose_on_host(Tensor logits, int32_t first, std::span<const int32_t> which,
                             std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  const auto cols = static_cast<size_t>(logits.cols);
  const size_t bytes =
      sizeof(float) * (static_cast<size_t>(logits.rows - 1) * static_cast<size_t>(logits.stride) + cols);
  auto* const rows = reinterpret_cast<float*>(memory_.fetch(static_cast<const std::byte*>(logits.data), bytes));

  // Distributions that lie on the GPU, read or written.
  local_.clear();
  for (const int32_t i : which) local_.push_back(requests[static_cast<size_t>(i)]);
  size_t size = 0;
  const auto entries = [cols](const RowRequest& request) {
    return request.distribution != nullptr ? static_cast<size_t>(request.distribution_size)
                                           : (request.draft_q != nullptr ? cols : 0);
  };
  for (const RowRequest& request : local_) size += entries(request);
  distributions_.resize(size);
  size = 0;
  for (RowRequest& request : local_) {
    request.row -= first;
    float* const mine = distributions_.data() + size;
    size += entries(request);
    if (request.draft_q != nullptr) {
      memory_.download(reinterpret_cast<const std::byte*>(request.draft_q), mine, sizeof(float) * cols);
      request.draft_q = mine;
    }
    if (request.distribution != nullptr) request.distribution = mine;
  }

  found_.resize(local_.size());
  choose_rows(*this, rows, logits.stride, logits.cols, local_, found_, sampler_scratch_);
  for (size_t i = 0; i < local_.size(); ++i) {
    const auto at = static_cast<size_t>(which[i]);
    choices[at] = found_[i];
    if (requests[at].distribution == nullptr) continue;
    memory_.upload(local_[i].distribution, reinterpret_cast<std::byte*>(requests[at].distribution),
                   sizeof(float) * static_cast<size_t>(requests[at].distribution_size));
  }
}

void CudaOps::for_each(int32_t n, void (*fn)(void*, int32_t), void* context) {
  pool_.run_throwing(n, [=](int32_t item) { fn(context, item); });
}

}  // namespace ashlar::cuda
