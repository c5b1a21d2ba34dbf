// SPDX-License-Identifier: Apache-2.0
#include "server/api/wire.h"

#include <algorithm>
#include <cmath>

#include "server/api/format/answer_parts.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::server {
namespace {

Json bytes_of(const std::string& bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

Json one_token(const std::string& bytes, float logprob) {
  return {{"token", token_text(bytes)}, {"logprob", finite_logprob(logprob)}, {"bytes", bytes_of(bytes)}};
}

/// Of one token of a prompt: itself and the likeliest ones, by id.
Json prompt_entry(const TokenPiece& piece, int32_t top) {
  Json out = Json::object();
  const auto add = [&](int32_t id, float logprob, int32_t rank, const std::string& bytes) {
    out.emplace(std::to_string(id),
                Json{{"logprob", finite_logprob(logprob)}, {"rank", rank}, {"decoded_token", token_text(bytes)}});
  };
  add(piece.id, piece.logprobs.token, piece.rank, piece.bytes);
  const size_t n = std::min(static_cast<size_t>(std::clamp(piece.logprobs.n_top, 0, top)), piece.top_bytes.size());
  for (size_t i = 0; i < n; ++i) {
    add(piece.logprobs.top_ids[i], piece.logprobs.top_values[i], static_cast<int32_t>(i) + 1, piece.top_bytes[i]);
  }
  return out;
}

void add_each(std::vector<int32_t>& sum, const std::vector<int32_t>& values) {
  if (sum.size() < values.size()) sum.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

}  // namespace

std::string to_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }
std::string event(const Json& data) { return "data: " + to_line(data) + "\n\n"; }
std::string event(const std::string& name, const Json& data) {
  return "event: " + name + "\ndata: " + to_line(data) + "\n\n";
}

Json openai_usage(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", int64_t{usage.prompt_tokens} + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

Usage& RunningUsage::answer(int32_t index) {
  if (of_.size() <= static_cast<size_t>(index)) of_.resize(static_cast<size_t>(index) + 1, begun_);
  return of_[static_cast<size_t>(index)];
}

void RunningUsage::add(const AnswerDelta& delta) {
  Usage& usage = answer(delta.index);
  usage.completion_tokens += delta.n_tokens;
  if (kind_of(delta) == AnswerDelta::Kind::kReasoning) usage.reasoning_tokens += delta.n_tokens;
}

Json openai_error(const ApiError& error) {
  Json inner = {{"message", error.message}, {"type", error.type}, {"param", nullptr}, {"code", nullptr}};
  if (!error.param.empty()) inner["param"] = error.param;
  if (!error.code.empty()) inner["code"] = error.code;
  return {{"error", std::move(inner)}};
}

const char* openai_reason(AnswerEnd::Reason reason) {
  if (reason == AnswerEnd::Reason::kStop) return "stop";
  return reason == AnswerEnd::Reason::kToolCalls ? "tool_calls" : "length";
}

Json openai_call(const ToolCallDelta& call) {
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Json prompt_entries(const std::vector<TokenPiece>& pieces, int32_t top) {
  Json out = Json::array();
  for (const TokenPiece& piece : pieces) out.push_back(piece.has_logprob ? prompt_entry(piece, top) : Json());
  return out;
}

Json block_of(const AnswerDelta& delta) {
  Json block = {{"tokens", delta.n_tokens}, {"drafted", delta.n_drafted}};
  if (delta.step >= 0) block.update({{"step", delta.step}, {"at", delta.at}});
  return block;
}

bool reports_tokens(const AnswerDelta& delta, bool stream_blocks) {
  return stream_blocks ? delta.n_tokens > 0 : !delta.tokens.empty();
}

std::string token_text(const std::string& bytes) { return text::replace_invalid_utf8(bytes); }
double finite_logprob(float value) { return std::isfinite(value) ? double{value} : -9999.0; }

Json token_entry(const TokenPiece& piece) {
  Json entry = one_token(piece.bytes, piece.logprobs.token);
  Json tops = Json::array();
  const size_t n = std::min(static_cast<size_t>(std::max(0, piece.logprobs.n_top)), piece.top_bytes.size());
  for (size_t i = 0; i < n; ++i) tops.push_back(one_token(piece.top_bytes[i], piece.logprobs.top_values[i]));
  entry["top_logprobs"] = std::move(tops);
  if (piece.step >= 0) entry["step"] = piece.step;
  return entry;
}

Json token_entries(const std::vector<TokenPiece>& pieces) {
  Json list = Json::array();
  for (const TokenPiece& piece : pieces) list.push_back(token_entry(piece));
  return list;
}

void add_stats(RequestStats& sum, const RequestStats& stats) {
  // Answers of a request run together: from the beginning of any of them to the end of the last.
  for (const auto at : {&RequestStats::first_token_ns, &RequestStats::prompt_done_ns}) {
    if (sum.*at == 0 || (stats.*at != 0 && stats.*at < sum.*at)) sum.*at = stats.*at;
  }
  sum.finished_ns = std::max(sum.finished_ns, stats.finished_ns);
  sum.generated_tokens += stats.generated_tokens;
  sum.verify_steps += stats.verify_steps;
  sum.drafted += stats.drafted;
  sum.accepted += stats.accepted;
  sum.ngram_accepted += stats.ngram_accepted;
  add_each(sum.drafted_at, stats.drafted_at);
  add_each(sum.accepted_at, stats.accepted_at);
  add_each(sum.lengths, stats.lengths);
  sum.blocks += stats.blocks;
  add_each(sum.unmasked_in_pass, stats.unmasked_in_pass);
}

Json metrics(const RequestStats& sum) {
  const double length = sum.mean_length();
  const double seconds = std::round(static_cast<double>(sum.decoding().ns) * 1e-3) / 1e6;
  if (counts_blocks(sum)) {
    return {{"dllm",
             {{"forwards", sum.verify_steps},
              {"tokens_per_forward", length},
              {"blocks", sum.blocks},
              {"decided_per_forward", sum.lengths},
              {"unmasked_in_pass", sum.unmasked_in_pass},
              {"settled_per_forward", sum.lengths},
              {"settled_in_pass", sum.unmasked_in_pass}}},
            {"decode_seconds", seconds}};
  }
  return {{"speculative_decoding",
           {{"drafted", sum.drafted},
            {"accepted", sum.accepted},
            {"ngram_accepted", sum.ngram_accepted},
            {"recalled", sum.ngram_accepted},
            {"verify_steps", sum.verify_steps},
            {"mean_length", length},
            {"drafted_per_position", sum.drafted_at},
            {"accepted_per_position", sum.accepted_at}}},
          {"decode_seconds", seconds}};
}

}  // namespace ashlar::server
