#include "server/service/answer_text.h"

#include <algorithm>
#include <random>

namespace ashlar::server {
namespace {

std::vector<int32_t> all_stop_ids(const ServedModel& model, const Generation& generation) {
  std::vector<int32_t> ids = generation.stop_ids;
  if (!generation.ignore_eos) ids.insert(ids.end(), model.stop_ids.begin(), model.stop_ids.end());
  return ids;
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
      text_(*model.tokenizer, generation.skip_special_tokens, stops_),
      parser_({.reasoning = generation.split_reasoning,
               .starts_in_reasoning = generation.split_reasoning && starts_in_reasoning,
               .tool_calls = calls}) {}

bool AnswerText::ends(int32_t id) const { return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end(); }

AnswerDelta AnswerText::take(const TokenChunk& chunk) {
  AnswerDelta delta;
  delta.index = index_;
  if (text_.stopped()) return delta;
  size_t n = chunk.tokens.size();
  // A token that ends the answer is no part of its text.
  const bool end = n > 0 && ends(chunk.tokens[n - 1]);
  if (end) --n;
  const OutputText::Delta text = text_.push({chunk.tokens.data(), n});
  if (text.stop_string) stop_string_ = stops_[*text.stop_string];
  const auto taken = static_cast<int32_t>(text.consumed);
  const bool reasoning = parser_.in_reasoning();
  add(parser_.push(text.text), delta);
  if (reasoning) reasoning_tokens_ += taken;
  for (int32_t i = 0; i < taken && !chunk.logprobs.empty(); ++i) {
    const auto at = static_cast<size_t>(i);
    delta.tokens.push_back(piece(chunk.tokens[at], chunk.logprobs[at]));
    if (!chunk.settled_in.empty()) delta.tokens.back().step = chunk.settled_in[at];
  }
  if (!chunk.settled_in.empty()) {
    delta.step = chunk.settled_in.front();
    delta.at = chunk.at;
  }
  delta.n_tokens = taken;
  delta.n_drafted = std::min(chunk.n_drafted, taken);
  tokens_ += taken + (end && !text_.stopped() ? 1 : 0);
  return delta;
}

AnswerDelta AnswerText::finish() {
  AnswerDelta delta;
  delta.index = index_;
  const OutputText::Delta text = text_.flush();
  if (text.stop_string) stop_string_ = stops_[*text.stop_string];
  add(parser_.push(text.text), delta);
  add(parser_.finish(), delta);
  return delta;
}

void AnswerText::add(text::OutputParser::Parts parts, AnswerDelta& delta) {
  delta.reasoning += parts.reasoning;
  delta.content += parts.content;
  for (text::OutputParser::CallPart& part : parts.calls) {
    if (part.index >= max_calls_) continue;
    ToolCallDelta call;
    call.index = part.index;
    if (!part.name.empty()) call.id = random_call_id();
    call.name = std::move(part.name);
    call.arguments = std::move(part.arguments);
    delta.tool_calls.push_back(std::move(call));
  }
}

TokenPiece AnswerText::piece(int32_t id, const TokenLogprobs& logprobs) const {
  const auto bytes = [this](int32_t token) {
    return std::string(model_.tokenizer->is_special(token) ? model_.tokenizer->token_content(token)
                                                           : model_.tokenizer->piece_bytes(token));
  };
  TokenPiece out{id, bytes(id), logprobs, {}};
  for (int32_t i = 0; i < logprobs.n_top; ++i) out.top_bytes.push_back(bytes(logprobs.top_ids[i]));
  return out;
}

}  // namespace ashlar::server
