// SPDX-License-Identifier: Apache-2.0
#include "app/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "measure/build_info.h"
#include "session/session.h"

namespace ashlar {
namespace {

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Microseconds are what clocks and schedulers leave of a figure; further digits are noise.
double rounded(double value, double parts) { return std::round(value * parts) / parts; }

std::string rate_text(double rate) { return number(rate < 100 ? "%.1f" : "%.0f", rate) + " tokens/s"; }

}  // namespace

void AnswerTotals::add(const Answer& answer) {
  const RequestStats& stats = answer.stats;
  ++answers;
  prompt_tokens += stats.prompt_tokens;
  cached_tokens += stats.cached_tokens;
  tokens += static_cast<int64_t>(answer.tokens.size());
  verify_steps += stats.verify_steps;
  drafted += stats.drafted;
  accepted += stats.accepted;
  ngram_accepted += stats.ngram_accepted;
  lengths.resize(std::max(lengths.size(), stats.lengths.size()));
  for (size_t n = 0; n < stats.lengths.size(); ++n) {
    lengths[n] += stats.lengths[n];
    verified_tokens += static_cast<int64_t>(n) * stats.lengths[n];
  }
  const auto [timed, ns] = stats.decoding();
  decode_tokens += timed;
  decode_seconds += static_cast<double>(ns) * 1e-9;
}

double AnswerTotals::mean_length() const {
  return verify_steps > 0 ? static_cast<double>(verified_tokens) / static_cast<double>(verify_steps) : 0.0;
}

double AnswerTotals::tokens_per_forward() const {
  return verify_steps > 0 ? static_cast<double>(tokens) / static_cast<double>(verify_steps) : 0.0;
}

double AnswerTotals::decode_rate() const {
  return enough_for_a_rate(decode_tokens, decode_seconds) ? static_cast<double>(decode_tokens) / decode_seconds : 0.0;
}

std::string stats_line(const std::vector<Answer>& answers, double seconds, StepKind kind) {
  AnswerTotals totals;
  for (const Answer& answer : answers) totals.add(answer);
  std::string text = std::to_string(totals.tokens) + (totals.tokens == 1 ? " token" : " tokens");
  const bool one = answers.size() == 1;
  if (!one) text += " in " + std::to_string(answers.size()) + " answers";
  const bool forwards = kind == StepKind::kForward;
  const double all = enough_for_a_rate(totals.tokens, seconds) ? static_cast<double>(totals.tokens) / seconds : 0.0;
  const double rate = one ? totals.decode_rate() : all;
  if (rate > 0) text += ", " + rate_text(rate);
  if (forwards && totals.verify_steps > 0) {
    text += ", " + number("%.2f", totals.tokens_per_forward()) + " tokens per forward";
  }
  if (totals.drafted > 0) text += ", " + number("%.2f", totals.mean_length()) + " tokens per step";
  if (totals.prompt_tokens > 0) text += ", prompt " + std::to_string(totals.prompt_tokens) + " tokens";
  if (totals.cached_tokens > 0) text += " (" + std::to_string(totals.cached_tokens) + " cached)";
  if (one && answers[0].stats.first_token_ns > 0) {
    const RequestStats& stats = answers[0].stats;
    text += ", first token after " +
            number("%.1f ms", static_cast<double>(stats.first_token_ns - stats.submitted_ns) * 1e-6);
  }
  if (one && !answers[0].finish.empty() && answers[0].finish != "stop") {
    text += answers[0].finish == "length" ? ", stopped at the length limit" : ", " + answers[0].finish;
  }
  return text;
}

std::vector<std::string> histogram_lines(const std::vector<int64_t>& lengths, int width) {
  int64_t total = 0, most = 1;
  size_t last = 0;
  for (size_t n = 1; n < lengths.size(); ++n) {
    total += lengths[n];
    most = std::max(most, lengths[n]);
    if (lengths[n] > 0) last = n;
  }
  const int bar = std::max(5, width - 16);
  std::vector<std::string> lines;
  for (size_t n = 1; n <= last; ++n) {
    if (lengths[n] == 0) continue;
    const auto filled = static_cast<size_t>((lengths[n] * bar + most - 1) / most);  // whatever occurs shows
    char head[32], tail[32];
    std::snprintf(head, sizeof head, "  %2zu | ", n);
    std::snprintf(tail, sizeof tail, "%.1f %%", 100.0 * static_cast<double>(lengths[n]) / static_cast<double>(total));
    lines.push_back(head + std::string(filled, '#') + " " + tail);
  }
  return lines;
}

Json provenance(const Session& session) {
  return {{"build", describe_build()},
          {"model", session.choice().model.string()},
          {"drafter", session.has_drafter() ? Json(session.choice().drafter->string()) : Json(nullptr)},
          {"device", session.ops().name()},
          {"isa", session.ops().isa()},
          {"threads", session.ops().threads()}};
}

Json stats_json(const Answer& answer) {
  const RequestStats& stats = answer.stats;
  Json json{
      {"prompt_tokens", stats.prompt_tokens},
      {"cached_tokens", stats.cached_tokens},
      {"generated_tokens", answer.tokens.size()},
      {"seconds", rounded(answer.seconds(), 1e6)},
      {"first_token_seconds", stats.first_token_ns > 0
                                  ? rounded(static_cast<double>(stats.first_token_ns - stats.submitted_ns) * 1e-9, 1e6)
                                  : 0.0},
      {"tokens_per_second", answer.decode_tokens_per_second() > 0
                                ? Json(rounded(answer.decode_tokens_per_second(), 100))
                                : Json()}};  // too few tokens for a figure
  const auto per_pass = [&stats](double figure) { return stats.verify_steps > 0 ? Json(figure) : Json(); };
  if (!stats.unmasked_in_pass.empty()) {  // as the line for people has it: of the answer's tokens
    AnswerTotals totals;
    totals.add(answer);
    json["forwards"] = stats.verify_steps;
    json["tokens_per_forward"] = per_pass(totals.tokens_per_forward());
  } else {
    json["verify_steps"] = stats.verify_steps;
    json["drafted"] = stats.drafted;
    json["accepted"] = stats.accepted;
    json["ngram_accepted"] = stats.ngram_accepted;
    json["recalled"] = stats.ngram_accepted;  // its name in the version before
    json["mean_acceptance_length"] = per_pass(stats.mean_length());
  }
  json["preemptions"] = stats.preemptions;
  return json;
}

Json logprobs_json(const Answer& answer, const Tokenizer& tokenizer) {
  const auto entry = [&tokenizer](int32_t id, float logprob) {
    return Json{{"id", id}, {"token", tokenizer.piece_bytes(id)}, {"logprob", logprob}};
  };
  Json list = Json::array();
  for (size_t i = 0; i < answer.logprobs.size(); ++i) {
    const TokenLogprobs& logprobs = answer.logprobs[i];
    Json item = entry(answer.tokens[i], logprobs.token);
    if (!answer.unmask_pass.empty()) item["step"] = answer.unmask_pass[i];
    Json& top = item["top"] = Json::array();
    for (int32_t k = 0; k < logprobs.n_top; ++k) top.push_back(entry(logprobs.top_ids[k], logprobs.top_values[k]));
    list.push_back(std::move(item));
  }
  return list;
}

std::string dump_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace ashlar
