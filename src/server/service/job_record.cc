// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "server/api/wire.h"
#include "server/service/job.h"

// What remains of a request.

namespace ashlar::server {
namespace {

constexpr size_t kLongestUser = 256;  // of what a record keeps

double as_seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// An answer for a log, calls included.
std::string whole_text(const FinishedAnswer& answer) {
  std::string out;
  for (const AnswerDelta& part : parts_of(answer)) {
    out += part.reasoning + part.content;
    for (const ToolCallDelta& call : part.tool_calls) {
      out += "<tool_call>{\"name\": " + to_line(call.name) + ", \"arguments\": " + call.arguments + "}</tool_call>";
    }
  }
  return out;
}

}  // namespace

const char* name_of(AnswerEnd::Reason reason) {
  switch (reason) {
    case AnswerEnd::Reason::kStop:
      return "stop";
    case AnswerEnd::Reason::kLength:
      return "length";
    case AnswerEnd::Reason::kToolCalls:
      return "tool_calls";
    case AnswerEnd::Reason::kCancelled:
      return "cancelled";
    case AnswerEnd::Reason::kError:
      break;
  }
  return "error";
}

// How it ended: of several answers the first that went wrong, if the request failed, even if only for being cut.
AnswerEnd::Reason Job::end_of_all(bool failed) const {
  using Reason = AnswerEnd::Reason;
  for (const Reason wrong : {Reason::kError, Reason::kCancelled}) {
    if (!failed) break;
    for (const State& state : states_) {
      if (state.finished.end.reason == wrong) return wrong;
    }
  }
  return states_.front().finished.end.reason;
}

RequestRecord Job::record(const std::optional<ApiError>& error) const {
  RequestRecord out;
  out.id = exchange_->request().id;
  out.api = name_of(api_);
  out.model = context_.model->name;
  out.peer = exchange_->request().peer;
  out.user = for_message(generation_.user, kLongestUser);
  out.status = error ? error->status : 200;
  out.stream = generation_.stream;
  out.answers = static_cast<int32_t>(states_.size());
  out.finish = name_of(end_of_all(error.has_value()));
  if (error) out.error = error->message;
  out.usage = usage_;
  out.drafted = total_.drafted;
  out.accepted = total_.accepted;
  out.verify_steps = total_.verify_steps;
  out.queue_s = as_seconds(queue_ns_);
  out.first_token_s = first_token_ns_ == 0 ? 0 : as_seconds(first_token_ns_ - arrived_ns_);
  out.total_s = as_seconds(now_ns() - arrived_ns_);
  if (context_.keep_texts) {
    out.prompts = described_.prompt_texts;
    for (const State& state : states_) out.texts.push_back(whole_text(state.finished));
  }
  std::vector<AnsweredTokens> tokens = kept_tokens();
  if (!tokens.empty()) out.tokens = std::make_shared<const std::vector<AnsweredTokens>>(std::move(tokens));
  return out;
}

// What the client got, if it got it whole: what follows a stop string depends on when the engine heard of it.
std::vector<AnsweredTokens> Job::kept_tokens() const {
  std::vector<AnsweredTokens> out;
  if (!keeps_tokens() || broken_) return out;
  for (const State& state : states_) {
    const bool whole = state.finished.end.reason != AnswerEnd::Reason::kError &&
                       state.finished.end.reason != AnswerEnd::Reason::kCancelled;
    AnsweredTokens kept = state.kept;
    kept.answer.resize(std::min(kept.answer.size(), static_cast<size_t>(state.text.tokens())));
    if (whole && !kept.answer.empty()) out.push_back(std::move(kept));
  }
  return out;
}

}  // namespace ashlar::server
