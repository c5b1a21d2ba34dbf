// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/listed_row.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "device/sampling/likeliest_tokens.h"
#include "device/sampling/rejection.h"

namespace ashlar {
namespace {

constexpr int32_t kLongest = 512;    // of a list by number: beyond that a whole row is as good
constexpr double kRounding = 1e-5;   // of shares
constexpr double kFloorStep = 1e-3;  // of distances

bool changes(const RowRequest& request) {
  const SamplingParams& params = *request.params;
  return !params.logit_bias.empty() || params.has_penalties() || !request.allowed.empty() || request.repeated >= 0;
}

void sort(ListedRow& row) {
  std::sort(row.tokens.begin(), row.tokens.end(), [](const ListedRow::Token& a, const ListedRow::Token& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.column < b.column;
  });
}

// The list as part of a row: logits, and which tokens they are of.
void fill(SamplerScratch& scratch, const ListedRow& row, const RowRequest& request) {
  scratch.raw.clear();
  scratch.ids.clear();
  for (const auto& token : row.tokens) {
    scratch.raw.push_back(token.logit);
    scratch.ids.push_back(request.id_map != nullptr ? request.id_map[token.column] : token.column);
  }
}

// The token, and its logits.
ListedRow::Token draw_from(const ListedRow& row, const RowRequest& request, int32_t vocab, SamplerScratch& scratch) {
  fill(scratch, row, request);
  const int32_t id = sample_token(scratch.raw.data(), static_cast<int32_t>(scratch.raw.size()), *request.params,
                                  request.position, scratch.ids.data(), scratch, {vocab, row.tempered});
  const auto at = std::find(scratch.ids.begin(), scratch.ids.end(), id) - scratch.ids.begin();
  return {id, row.tokens[static_cast<size_t>(at)].logit, row.tokens[static_cast<size_t>(at)].raw};
}

const ListedRow::Token& find(const ListedRow& row, int32_t column) {
  return *std::find_if(row.tokens.begin(), row.tokens.end(), [&](const auto& token) { return token.column == column; });
}

// From the tokens about which the share is reached: in order of likelihood, those before them counting as gone.
ListedRow::Token draw_by_mass(const ListedRow& row, const RowRequest& request, SamplerScratch& scratch) {
  const double inverse = 1.0 / request.params->temperature, highest = row.highest * inverse;
  const auto weight = [&](float logit, float& tempered) {
    tempered = static_cast<float>(logit * inverse - highest);
    return static_cast<double>(std::exp(tempered));
  };
  const bool verifies = request.pick == Pick::kVerified && request.token >= 0;
  const float* const q = request.draft_q;
  float tempered = 0;
  if (verifies && accepts_draft(request, weight(row.given.logit, tempered) / row.tempered, q ? row.given.q : 1.0)) {
    return {request.token, row.given.logit, row.given.raw};
  }
  std::vector<Candidate>& candidates = scratch.candidates;
  candidates.clear();
  for (const ListedRow::Token& token : row.tokens) {
    double mass = weight(token.logit, tempered);
    if (verifies) mass -= (q != nullptr ? token.q : token.column == request.token ? 1.0 : 0.0) * row.tempered;
    if (mass > 0) candidates.push_back({token.column, tempered, mass});
  }
  if (candidates.empty()) return row.tokens.front();  // nothing but roundings
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  const auto domain = request.pick == Pick::kDraft ? noise::Domain::kDraft : noise::Domain::kResample;
  return find(row, pick_candidate(candidates, 1.0, uniform_of(request, domain) * row.mass - row.before));
}

// From all that filters keep.
ListedRow::Token draw_by_filters(const ListedRow& row, const RowRequest& request, int32_t vocab,
                                 SamplerScratch& scratch) {
  fill(scratch, row, request);
  const auto list = [&] {
    filter_candidates(scratch.raw.data(), static_cast<int32_t>(scratch.raw.size()), *request.params, scratch.ids.data(),
                      scratch.candidates, {vocab, row.tempered});
  };
  if (request.pick == Pick::kDraft) {
    list();
    return {pick_candidate(scratch.candidates, 1.0, uniform_of(request, noise::Domain::kDraft)), 0, 0};
  }
  const auto q_of = [&](int32_t id) -> double {
    return request.draft_q != nullptr ? find(row, id).q : id == request.token ? 1.0 : 0.0;
  };
  return find(row, verify_by_rejection(request, list, q_of, scratch.candidates));
}

}  // namespace

RowWishes wishes_of(const RowRequest& request, int32_t vocab) {
  RowWishes wishes;
  if (request.pick == Pick::kGiven) {
    wishes.any = wishes.likely = request.top_logprobs >= 0;
    wishes.of_likely.least = std::max(request.top_logprobs, 1);
    wishes.of_likely.given = request.token;
    return wishes;
  }
  const bool is_token = request.pick != Pick::kLikeliest;
  const SamplingParams& params = *request.params;
  const bool by_rejection = is_by_rejection(request);
  const bool statistics = is_token && request.statistics && !by_rejection;
  // Log-probabilities and statistics are by column; and a device knows no maps.
  const bool by_column = is_token && (request.top_logprobs >= 0 || statistics || request.pick == Pick::kVerified);
  const bool by_whole = !params.greedy() && !params.filters();
  wishes.adjusted = changes(request);
  if (request.id_map != nullptr && (wishes.adjusted || by_column || by_whole)) return wishes;
  int32_t least = 0;
  if (request.pick == Pick::kLikeliest) least = looked_at(params);
  if (is_token && request.top_logprobs >= 0) {
    const int32_t tops = std::max(request.top_logprobs, 1);
    wishes.raw = wishes.adjusted;
    (wishes.raw ? wishes.of_raw.least : least) = std::max(least, tops);
  }
  // Statistics know which one is highest, but not its logit before adjustments.
  if (params.greedy() && (!statistics || request.top_logprobs >= 0)) least = std::max(least, 1);
  if (!params.greedy() && params.top_k > 0) least = std::max(least, params.top_k);
  if (least > kLongest) return wishes;
  wishes.any = true;
  wishes.statistics = statistics;
  wishes.likely = least > 0;
  wishes.of_likely.least = least;
  wishes.draw = !params.greedy() && params.top_k == 0;
  if (by_rejection) {
    ListWish& drawn = wishes.draw ? wishes.of_draw : wishes.of_likely;
    drawn.draws = true;
    if (request.pick == Pick::kVerified) drawn.given = request.token;
    drawn.by_mass = by_whole;
    drawn.at = uniform_of(request, request.pick == Pick::kDraft ? noise::Domain::kDraft : noise::Domain::kResample);
  }
  if (!wishes.draw || wishes.of_draw.by_mass) return wishes;
  wishes.of_draw.with_noise = by_whole;
  wishes.of_draw.floor = lowest_kept(params, vocab) - kFloorStep;
  if (params.top_p + kRounding < 1) wishes.of_draw.share = params.top_p + kRounding;
  return wishes;
}

bool answers(const RowLists& lists) {
  // Without numbers statistics have chances of zero.
  return lists.statistics == nullptr || lists.statistics->p_best > 0;
}

RowChoice choose_listed(const RowRequest& request, int32_t vocab, const RowLists& lists, SamplerScratch& scratch) {
  ListedRow* const likely = lists.likely;
  for (ListedRow* list : {lists.raw, likely, lists.draw}) {
    if (list != nullptr) sort(*list);
  }
  RowChoice choice;
  const auto note_logprobs = [&](const ListedRow& row, float own) {
    const LogNormaliser normaliser = {row.highest, std::log(row.sum)};
    TokenLogprobs& logprobs = choice.logprobs;
    logprobs.token = normaliser.logprob(own);
    logprobs.n_top = std::min(request.top_logprobs, static_cast<int32_t>(row.tokens.size()));
    for (int32_t i = 0; i < logprobs.n_top; ++i) {
      logprobs.top_ids[i] = row.tokens[static_cast<size_t>(i)].column;
      logprobs.top_values[i] = normaliser.logprob(row.tokens[static_cast<size_t>(i)].logit);
    }
  };
  if (request.pick == Pick::kGiven) {
    choice.token = request.token;
    choice.rank = likely->rank;
    note_logprobs(*likely, likely->given.logit);
    return choice;
  }
  const ListedRow* const to_draw = lists.draw != nullptr ? lists.draw : likely;
  ListedRow::Token token;
  if (to_draw == nullptr) {
    token = {lists.statistics->best, 0, 0};
  } else if (!is_by_rejection(request)) {
    token = draw_from(*to_draw, request, vocab, scratch);
  } else {
    token = request.params->filters() ? draw_by_filters(*to_draw, request, vocab, scratch)
                                      : draw_by_mass(*to_draw, request, scratch);
  }
  if (request.pick == Pick::kLikeliest) {
    scratch.raw.clear();
    scratch.ids.clear();
    const auto n = std::min(likely->tokens.size(), static_cast<size_t>(looked_at(*request.params)));
    for (size_t i = 0; i < n; ++i) {
      scratch.raw.push_back(likely->tokens[i].logit);
      scratch.ids.push_back(likely->tokens[i].column);
    }
    find_likeliest({static_cast<int32_t>(n), scratch.ids.data(), scratch.raw.data(), likely->sum}, *request.params,
                   request.position, request.id_map, token.column, choice.likeliest);
    return choice;
  }
  choice.token = token.column;
  if (lists.statistics != nullptr) {
    choice.statistics = *lists.statistics;
    choice.probability = choice.token == choice.statistics.best ? choice.statistics.p_best
                                                                : std::exp(token.logit - choice.statistics.log_sum);
  }
  if (request.top_logprobs >= 0) note_logprobs(lists.raw != nullptr ? *lists.raw : *likely, token.raw);
  return choice;
}

}  // namespace ashlar
