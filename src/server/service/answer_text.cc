// SPDX-License-Identifier: Apache-2.0
#include "server/service/answer_text.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "server/api/format/answer_parts.h"

namespace ashlar::server {
namespace {

std::vector<int32_t> all_stop_ids(const ServedModel& model, const Generation& generation) {
  std::vector<int32_t> ids = generation.stop_ids;
  if (!generation.ignore_eos) ids.insert(ids.end(), model.stop_ids.begin(), model.stop_ids.end());
  return ids;
}

std::vector<std::string> bare_calls(const ServedModel& model, const Generation& generation) {
  std::vector<std::string> names;
  if (model.call_form() != CallForm::kBare) return names;
  const auto* chat = std::get_if<ChatPrompt>(&generation.prompts.front());
  if (chat == nullptr) return names;
  for (const Json& tool : chat->tools) names.push_back(tool.at("function").at("name").get<std::string>());
  return names;
}

}  // namespace

std::string random_call_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id = "call_";
  for (int i = 0; i < 24; ++i) id += "0123456789abcdef"[random() % 16];
  return id;
}

AnswerText::AnswerText(const ServedModel& model, const Generation& generation, int32_t index, bool starts_in_reasoning,
                       bool calls)
    : model_(model),
      stops_(generation.stop),
      stop_ids_(all_stop_ids(model, generation)),
      index_(index),
      max_calls_(generation.parallel_tool_calls ? INT32_MAX : 1),
      skips_special_(generation.skip_special_tokens),
      lists_end_(generation.echo),
      text_(*model.tokenizer, generation.skip_special_tokens, stops_),
      parser_({.reasoning = generation.split_reasoning,
               .starts_in_reasoning = generation.split_reasoning && starts_in_reasoning,
               .tool_calls = calls,
               .only_calls = generation.demands_call(),
               .bare = bare_calls(model, generation)}) {}

bool AnswerText::ends(int32_t id) const { return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end(); }

std::vector<AnswerDelta> AnswerText::take(const TokenChunk& chunk) {
  std::vector<AnswerDelta> deltas;
  // A token that ends the answer is no part of its text.
  const bool end = !chunk.tokens.empty() && ends(chunk.tokens.back());
  const size_t n = chunk.tokens.size() - (end ? 1 : 0);
  for (size_t i = 0; i < n && !text_.stopped(); ++i) {
    const OutputText::Delta text = text_.push({&chunk.tokens[i], 1}, is_tag(chunk.tokens[i]));
    if (text.stop_string) stop_string_ = stops_[*text.stop_string];
    wait(chunk, i);
    ++tokens_;
    add(parser_.push(text.text), deltas);
  }
  if (end && !text_.stopped()) {
    ++tokens_;
    stop_token_ = chunk.tokens.back();
    if (lists_end_ && !chunk.logprobs.empty()) {
      waiting_.tokens.push_back(piece(chunk.tokens.back(), chunk.logprobs[n]));
      waiting_.tokens.back().in_text = false;
    }
  }
  return deltas;
}

std::vector<AnswerDelta> AnswerText::finish() {
  std::vector<AnswerDelta> deltas;
  const OutputText::Delta text = text_.flush();
  if (text.stop_string) stop_string_ = stops_[*text.stop_string];
  add(parser_.push(text.text), deltas);
  add(parser_.finish(), deltas);
  return deltas;
}

// Models whose tags are special tokens mean the same by them as others by text.
bool AnswerText::is_tag(int32_t id) const {
  if (!model_.tokenizer->is_special(id)) return false;
  const std::string_view content = model_.tokenizer->token_content(id);
  const auto& tags = text::OutputParser::kTags;
  return std::find(std::begin(tags), std::end(tags), content) != std::end(tags) && parser_.expects(content);
}

void AnswerText::wait(const TokenChunk& chunk, size_t at) {
  if (waiting_.n_tokens == 0 && !chunk.unmask_pass.empty()) {
    waiting_.step = chunk.unmask_pass[at];
    waiting_.at = chunk.at + static_cast<int32_t>(at);
  }
  ++waiting_.n_tokens;
  if (static_cast<int32_t>(at) < chunk.n_drafted) ++waiting_.n_drafted;
  if (chunk.logprobs.empty()) return;
  waiting_.tokens.push_back(piece(chunk.tokens[at], chunk.logprobs[at]));
  if (!chunk.unmask_pass.empty()) waiting_.tokens.back().step = chunk.unmask_pass[at];
}

void AnswerText::add(text::OutputParser::Parts parts, std::vector<AnswerDelta>& deltas) {
  for (text::OutputParser::Part& part : parts) add(std::move(part), deltas);
}

void AnswerText::add(text::OutputParser::Part part, std::vector<AnswerDelta>& deltas) {
  using Kind = text::OutputParser::Kind;
  AnswerDelta delta = std::exchange(waiting_, {});
  delta.index = index_;
  if (part.kind == Kind::kReasoning) {
    reasoning_tokens_ += delta.n_tokens;
    delta.reasoning = std::move(part.text);
  } else if (part.kind == Kind::kContent) {
    delta.content = std::move(part.text);
  } else if (part.call < max_calls_ && !(part.text.empty() && part.name.empty())) {
    std::string id = part.name.empty() ? "" : random_call_id();
    delta.tool_calls.push_back({part.call, std::move(id), std::move(part.name), std::move(part.text)});
  }
  const bool nothing = delta.n_tokens == 0 && delta.tokens.empty() && kind_of(delta) == AnswerDelta::Kind::kNone;
  if (!nothing && (deltas.empty() || !join(deltas.back(), delta))) deltas.push_back(std::move(delta));
}

TokenPiece AnswerText::piece(int32_t id, const TokenLogprobs& logprobs) const {
  TokenPiece out = token_piece(*model_.tokenizer, id, logprobs);
  out.in_text = !skips_special_ || !model_.tokenizer->is_special(id) || is_tag(id);
  return out;
}

TokenPiece token_piece(const Tokenizer& tokenizer, int32_t id, const TokenLogprobs& logprobs) {
  const auto bytes = [&](int32_t token) {
    return std::string(tokenizer.is_special(token) ? tokenizer.token_content(token) : tokenizer.piece_bytes(token));
  };
  TokenPiece out{id, bytes(id), logprobs, {}};
  for (int32_t i = 0; i < logprobs.n_top; ++i) out.top_bytes.push_back(bytes(logprobs.top_ids[i]));
  return out;
}

}  // namespace ashlar::server
