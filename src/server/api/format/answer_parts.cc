// SPDX-License-Identifier: Apache-2.0
#include "server/api/format/answer_parts.h"

#include <algorithm>

namespace ashlar::server {
namespace {

void append_tokens(std::vector<TokenPiece>& tokens, const std::vector<TokenPiece>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

/// Whether `next` goes on with the call that `delta` ends with.
bool same_call(const AnswerDelta& delta, const AnswerDelta& next) {
  const ToolCallDelta& call = next.tool_calls.front();
  return delta.tool_calls.back().index == call.index && call.name.empty() && call.id.empty();
}

}  // namespace

AnswerDelta::Kind kind_of(const AnswerDelta& delta) {
  if (!delta.reasoning.empty()) return AnswerDelta::Kind::kReasoning;
  if (!delta.content.empty()) return AnswerDelta::Kind::kContent;
  return delta.tool_calls.empty() ? AnswerDelta::Kind::kNone : AnswerDelta::Kind::kCall;
}

bool join(AnswerDelta& delta, const AnswerDelta& next) {
  using Kind = AnswerDelta::Kind;
  const Kind kind = kind_of(next);
  if (kind != Kind::kNone && kind != kind_of(delta)) return false;
  if (kind == Kind::kCall) {
    if (next.tool_calls.size() > 1 || !same_call(delta, next)) return false;
    delta.tool_calls.back().arguments += next.tool_calls.front().arguments;
  }
  delta.reasoning += next.reasoning;
  delta.content += next.content;
  append_tokens(delta.tokens, next.tokens);
  if (delta.n_tokens == 0) {
    delta.step = next.step;
    delta.at = next.at;
  }
  delta.n_tokens += next.n_tokens;
  delta.n_drafted += next.n_drafted;
  return true;
}

void append(FinishedAnswer& answer, const AnswerDelta& delta) {
  if (answer.parts.empty() || !join(answer.parts.back(), delta)) answer.parts.push_back(delta);
  answer.reasoning += delta.reasoning;
  answer.content += delta.content;
  append_tokens(answer.tokens, delta.tokens);
  for (const ToolCallDelta& part : delta.tool_calls) {
    auto& calls = answer.tool_calls;
    const auto same = [&](const ToolCallDelta& call) { return call.index == part.index; };
    const auto call = std::find_if(calls.begin(), calls.end(), same);
    if (call == calls.end()) {
      calls.push_back(part);
    } else {
      call->arguments += part.arguments;
    }
  }
}

std::vector<AnswerDelta> parts_of(const FinishedAnswer& answer) {
  if (!answer.parts.empty()) return answer.parts;
  std::vector<AnswerDelta> parts;
  const auto add = [&](AnswerDelta part) {
    part.index = answer.end.index;
    if (kind_of(part) != AnswerDelta::Kind::kNone) parts.push_back(std::move(part));
  };
  add({.reasoning = answer.reasoning});
  add({.content = answer.content, .tokens = answer.tokens});
  for (const ToolCallDelta& call : answer.tool_calls) add({.tool_calls = {call}});
  return parts;
}

}  // namespace ashlar::server
