// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/choose/cuda_survey.h"

#include <algorithm>

#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {

int32_t Surveyor::add(const RowRequest& request, const ListWish& wish, int32_t adjusted) {
  static const SamplingParams kNone;
  const SamplingParams& params = request.params != nullptr ? *request.params : kNone;
  SurveyCall call = {};
  call.row = request.row;
  call.adjusted = adjusted;
  call.excluded = request.excluded;
  call.exact_inverse = params.greedy() ? 1.0 : 1.0 / params.temperature;
  call.inverse = static_cast<float>(call.exact_inverse);
  call.least = wish.least;
  call.share = static_cast<float>(wish.share);
  call.floor = static_cast<float>(-wish.floor);
  call.with_noise = wish.with_noise ? 1 : 0;
  call.position = request.position;
  call.seed = params.seed;
  call.by_mass = wish.by_mass ? 1 : 0;
  call.at = wish.at;
  call.given = wish.given;
  if (wish.draws) {
    call.less_draft = wish.given >= 0 ? 1 : 0;
    call.draft_q = wish.given >= 0 ? request.draft_q : nullptr;
    call.distribution = request.distribution;
    call.distribution_size = request.distribution_size;
  }
  any_by_mass_ |= wish.by_mass;
  calls_.push_back(call);
  return static_cast<int32_t>(calls_.size()) - 1;
}

ListedRow::Token Surveyor::token_of(const Listed& listed) {
  return {listed.column, listed.logit, listed.raw, listed.q};
}

void Surveyor::take(const Survey& survey, ListedRow& row) {
  row.highest = survey.highest;
  row.sum = survey.sum;
  row.tempered = survey.tempered;
  row.mass = survey.mass;
  row.before = survey.before;
  row.given = {-1, survey.given, survey.given_raw, survey.given_q};
  row.rank = survey.rank;
  row.tokens.clear();
  for (int32_t i = 0; i < std::min(survey.n, Survey::kFew); ++i) row.tokens.push_back(token_of(survey.few[i]));
}

void Surveyor::run(const Matrix& logits, const Matrix& adjusted) {
  const size_t n = calls_.size();
  if (n == 0) return;
  constexpr size_t kRest = Survey::kMost - Survey::kFew;
  const size_t of_parts = survey_bytes(static_cast<int32_t>(n), any_by_mass_), of_calls = sizeof(SurveyCall) * n;
  const size_t of_surveys = sizeof(Survey) * n;
  auto* const parts =
      static_cast<std::byte*>(scratch_.reserve(of_parts + of_calls + of_surveys + sizeof(Listed) * kRest * n));
  std::byte* const calls = parts + of_parts;
  std::byte* const surveys = calls + of_calls;
  std::byte* const rest = surveys + of_surveys;
  memory_.upload(calls_.data(), calls, of_calls);
  survey(memory_.stream(), logits, adjusted, reinterpret_cast<const SurveyCall*>(calls), static_cast<int32_t>(n),
         any_by_mass_, parts, reinterpret_cast<Survey*>(surveys), reinterpret_cast<Listed*>(rest));
  check_launch("survey");

  if (rows_.size() < n) rows_.resize(n);
  lengths_.resize(n);
  is_whole_.resize(n);
  const auto* const found = reinterpret_cast<const Survey*>(memory_.fetch(surveys, of_surveys));
  bool has_more = false;
  for (size_t i = 0; i < n; ++i) {
    lengths_[i] = found[i].n;
    is_whole_[i] = found[i].n <= Survey::kMost ? 1 : 0;
    if (is_whole_[i] == 0) continue;
    take(found[i], rows_[i]);
    has_more |= found[i].n > Survey::kFew;
  }
  if (!has_more) return;
  const auto* const more = reinterpret_cast<const Listed*>(memory_.fetch(rest, sizeof(Listed) * kRest * n));
  for (size_t i = 0; i < n; ++i) {
    if (is_whole_[i] == 0) continue;
    const Listed* const of_row = more + i * kRest;
    for (int32_t k = 0; k < lengths_[i] - Survey::kFew; ++k) rows_[i].tokens.push_back(token_of(of_row[k]));
  }
}

}  // namespace ashlar::cuda
