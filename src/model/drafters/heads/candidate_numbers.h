// SPDX-License-Identifier: Apache-2.0
#pragma once
// The likeliest tokens of rows of logits, and what numbers say of each: its log-probability among all tokens, its
// probability, how far the former is below that of the likeliest, its rank from 0 to 1, and 1 for the likeliest.
// Source: LiLiCorr (arXiv 2608.20530).

#include <array>
#include <span>
#include <vector>

#include "device/ops.h"

namespace ashlar {

class CandidateNumbers {
 public:
  static constexpr int32_t kCount = 5;
  using Numbers = std::array<float, kCount>;

  /// `n` candidates of a row, at most kMaxTopLogprobs. A layer norm of the numbers has this weight and bias.
  CandidateNumbers(int32_t n, const std::vector<float>& weight, const std::vector<float>& bias);
  void reserve(int32_t rows);

  /// Waits. logits: fp32, not as they were after the call.
  void find(Ops& ops, Tensor logits);
  /// By row and rank, the likeliest first, the lowest id of equals; 0 where a row has no further number.
  std::span<const int32_t> ids() const { return ids_; }
  std::span<const Numbers> normed() const { return normed_; }
  int32_t found(int32_t row) const { return found_[static_cast<size_t>(row)]; }  ///< candidates that are numbers

 private:
  void add(const TokenLogprobs& row);

  int32_t n_;
  Numbers weight_{}, bias_{};
  SamplingParams plain_;  // temperature 0: what is asked for besides the likeliest tokens costs nothing
  std::vector<RowRequest> requests_;
  std::vector<RowChoice> choices_;
  std::vector<int32_t> ids_, found_;
  std::vector<Numbers> normed_;
};

}  // namespace ashlar
