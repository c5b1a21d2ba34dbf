// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/serve_summary.h"

#include "measure/statistics.h"

namespace ashlar {
namespace {

Spread spread_ms(std::vector<double> seconds) {
  for (double& value : seconds) value *= 1e3;
  Spread spread;
  spread.count = static_cast<int64_t>(seconds.size());
  spread.mean = mean(seconds);
  spread.p50 = quantile(seconds, 0.5);
  spread.p90 = quantile(seconds, 0.9);
  spread.p99 = quantile(std::move(seconds), 0.99);
  return spread;
}

// An answer without a time between tokens keeps every goal for it.
bool keeps(const RequestRecord& record, const LatencyGoals& goals) {
  if (goals.ttft_ms > 0 && record.ttft_s() * 1e3 > goals.ttft_ms) return false;
  return goals.itl_ms <= 0 || !record.has_itl() || record.itl_s() * 1e3 <= goals.itl_ms;
}

}  // namespace

LevelSummary summarize(const LevelRun& run, const LatencyGoals& goals) {
  LevelSummary summary;
  summary.level = run.level;
  summary.seconds = run.seconds;
  std::vector<double> ttft, itl, gaps, whole;
  for (const RequestRecord& record : run.records) {
    ++summary.requests;
    if (!record.ok()) {
      ++summary.errors[record.error];
      summary.examples.emplace(record.error, record.detail);
      continue;
    }
    ++summary.completed;
    ttft.push_back(record.ttft_s());
    whole.push_back(record.whole_s());
    if (record.has_itl()) itl.push_back(record.itl_s());
    gaps.insert(gaps.end(), record.gaps_s.begin(), record.gaps_s.end());
    summary.prompt_tokens += record.prompt_tokens;
    summary.tokens += record.tokens;
    summary.chunks += record.chunks;
    summary.tokens_reported = summary.tokens_reported && record.tokens_reported;
    summary.drafting_reported = summary.drafting_reported || record.drafting_reported;
    summary.drafted += record.drafted;
    summary.accepted += record.accepted;
    if (keeps(record, goals)) ++summary.good;
  }
  summary.ttft = spread_ms(std::move(ttft));
  summary.itl = spread_ms(std::move(itl));
  summary.gap = spread_ms(std::move(gaps));
  summary.whole = spread_ms(std::move(whole));
  if (run.seconds > 0) {
    summary.requests_per_s = static_cast<double>(summary.completed) / run.seconds;
    summary.tokens_per_s = static_cast<double>(summary.tokens) / run.seconds;
    summary.good_per_s = static_cast<double>(summary.good) / run.seconds;
  }
  return summary;
}

}  // namespace ashlar
