// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/listed_row.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "device/sampling/likeliest_tokens.h"

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

// The token, and its logits.
ListedRow::Token draw_from(const ListedRow& row, const RowRequest& request, int32_t vocab, SamplerScratch& scratch) {
  scratch.raw.clear();
  scratch.ids.clear();
  for (const auto& [column, logit, raw] : row.tokens) {
    scratch.raw.push_back(logit);
    scratch.ids.push_back(request.id_map != nullptr ? request.id_map[column] : column);
  }
  const int32_t id = sample_token(scratch.raw.data(), static_cast<int32_t>(scratch.raw.size()), *request.params,
                                  request.position, scratch.ids.data(), scratch, {vocab, row.tempered});
  const auto at = std::find(scratch.ids.begin(), scratch.ids.end(), id) - scratch.ids.begin();
  return {id, row.tokens[static_cast<size_t>(at)].logit, row.tokens[static_cast<size_t>(at)].raw};
}

RowStatistics statistics_of(const ListedRow& row) {
  RowStatistics statistics;
  const ListedRow::Token& best = row.tokens.front();
  const bool has_second = row.tokens.size() > 1;
  statistics.best = statistics.second = best.column;
  statistics.p_best = static_cast<float>(1 / row.sum);
  if (has_second) {
    statistics.second = row.tokens[1].column;
    statistics.p_second =
        static_cast<float>(std::exp(static_cast<double>(row.tokens[1].logit) - row.highest) / row.sum);
  }
  statistics.log_sum = static_cast<float>(std::log(row.sum) + row.highest);
  statistics.entropy = static_cast<float>(std::max(std::log(row.sum) - row.weighted / row.sum, 0.0));
  return statistics;
}

}  // namespace

RowWishes wishes_of(const RowRequest& request, int32_t vocab) {
  RowWishes wishes;
  const bool is_token = request.pick == Pick::kToken;
  if (!is_token && request.pick != Pick::kLikeliest) return wishes;
  const SamplingParams& params = *request.params;
  // Log-probabilities and statistics are by column; and a device knows no maps.
  const bool by_column = is_token && (request.top_logprobs >= 0 || request.statistics);
  const bool noise_alone = !params.greedy() && !params.filters();
  wishes.adjusted = changes(request);
  if (request.id_map != nullptr && (wishes.adjusted || by_column || noise_alone)) return wishes;
  int32_t least = 0;
  if (request.pick == Pick::kLikeliest) least = looked_at(params);
  if (is_token && request.statistics) least = 2;
  if (is_token && request.top_logprobs >= 0) {
    const int32_t tops = std::max(request.top_logprobs, 1);
    wishes.raw = wishes.adjusted;
    (wishes.raw ? wishes.of_raw.least : least) = std::max(least, tops);
  }
  if (params.greedy()) least = std::max(least, 1);
  if (!params.greedy() && params.top_k > 0) least = std::max(least, params.top_k);
  if (least > kLongest) return wishes;
  wishes.any = true;
  wishes.likely = least > 0;
  wishes.of_likely.least = least;
  if (params.greedy() || params.top_k > 0) return wishes;
  wishes.draw = true;
  wishes.of_draw.with_noise = noise_alone;
  wishes.of_draw.floor = lowest_kept(params, vocab) - kFloorStep;
  if (params.top_p + kRounding < 1) wishes.of_draw.share = params.top_p + kRounding;
  return wishes;
}

RowChoice choose_listed(const RowRequest& request, int32_t vocab, ListedRow* raw, ListedRow* likely, ListedRow* draw,
                        SamplerScratch& scratch) {
  if (raw != nullptr) sort(*raw);
  if (likely != nullptr) sort(*likely);
  if (draw != nullptr) sort(*draw);
  const ListedRow& to_draw = draw != nullptr ? *draw : *likely;
  const ListedRow::Token token = draw_from(to_draw, request, vocab, scratch);
  RowChoice choice;
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
  if (request.statistics) {
    choice.statistics = statistics_of(*likely);
    choice.probability = choice.token == choice.statistics.best ? choice.statistics.p_best
                                                                : std::exp(token.logit - choice.statistics.log_sum);
  }
  if (request.top_logprobs >= 0) {
    const ListedRow& row = raw != nullptr ? *raw : *likely;
    const LogNormaliser normaliser = {row.highest, std::log(row.sum)};
    TokenLogprobs& logprobs = choice.logprobs;
    logprobs.token = normaliser.logprob(token.raw);
    logprobs.n_top = std::min(request.top_logprobs, static_cast<int32_t>(row.tokens.size()));
    for (int32_t i = 0; i < logprobs.n_top; ++i) {
      logprobs.top_ids[i] = row.tokens[static_cast<size_t>(i)].column;
      logprobs.top_values[i] = normaliser.logprob(row.tokens[static_cast<size_t>(i)].logit);
    }
  }
  return choice;
}

}  // namespace ashlar
