// SPDX-License-Identifier: Apache-2.0
// Ollama's chat and generate: a stream is a JSON object a line, the last of which has the figures.

#include <algorithm>
#include <ctime>

#include "generate/chat_prompt.h"
#include "server/api/format/formats.h"
#include "server/api/wire.h"

namespace ashlar::server {
namespace {

std::string time_of(int64_t unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

int64_t between(int64_t from, int64_t to) { return from > 0 && to > from ? to - from : 0; }

class OllamaFormat : public Format {
 public:
  OllamaFormat(FormatContext context, bool chat)
      : context_(std::move(context)), chat_(chat), created_at_(time_of(context_.created_s)) {}

  std::string body(const std::vector<FinishedAnswer>& answers, const Usage& usage) override {
    if (answers.empty()) {  // a request that only loads the model
      Json out = part("", "", Json());
      out.update({{"done_reason", "load"}, {"done", true}});
      return to_line(out);
    }
    const FinishedAnswer& answer = answers.front();
    Json calls = Json::array();
    for (const ToolCallDelta& call : answer.tool_calls) calls.push_back(call_of(call));
    Json out = part(answer.content, answer.reasoning, calls);
    add_logprobs(out, answer.tokens);
    end_ = answer.end;
    add_end(out, usage);
    return to_line(out);
  }

  std::string begin(const Usage&) override { return {}; }

  // A call is one object, so it waits until it is whole.
  std::string delta(const AnswerDelta& delta) override {
    std::string out;
    const bool text = !delta.reasoning.empty() || !delta.content.empty();
    if (text) out += close_call();
    for (const ToolCallDelta& call : delta.tool_calls) {
      if (call_ && call_->index == call.index) {
        call_->arguments += call.arguments;
      } else {
        out += close_call();
        call_ = call;
      }
    }
    if (call_) {
      call_tokens_.insert(call_tokens_.end(), delta.tokens.begin(), delta.tokens.end());
    } else if (text || !delta.tokens.empty()) {
      Json line = part(delta.content, delta.reasoning, Json());
      add_logprobs(line, delta.tokens);
      out += line_of(std::move(line));
    }
    return out;
  }

  // Its clients read JSON in every line.
  std::string keep_alive() override { return line_of(part("", "", Json())); }

  std::string end(const AnswerEnd& end) override {
    end_ = end;
    return close_call();
  }

  std::string finish(const Usage& usage) override {
    Json out = part("", "", Json());
    add_end(out, usage);
    return to_line(out) + "\n";
  }

  std::string failed(const ApiError& error) override { return error_body(Api::kOllamaChat, error) + "\n"; }

 private:
  /// A line up to "done".
  Json part(const std::string& content, const std::string& reasoning, const Json& calls) const {
    // As the client named it, since some look for their answer by that.
    const std::string& named = context_.generation.model;
    Json out = {{"model", named.empty() ? context_.model : named}, {"created_at", created_at_}};
    if (!chat_) {
      out["response"] = content;
      if (!reasoning.empty()) out["thinking"] = reasoning;
      return out;
    }
    Json message = {{"role", "assistant"}, {"content", content}};
    if (!reasoning.empty()) message["thinking"] = reasoning;
    if (!calls.empty()) message["tool_calls"] = calls;
    out["message"] = std::move(message);
    return out;
  }

  static std::string line_of(Json line) {
    line["done"] = false;
    return to_line(line) + "\n";
  }

  static Json call_of(const ToolCallDelta& call) {
    Json function = {{"index", call.index}, {"name", call.name}, {"arguments", arguments_object(call.arguments)}};
    return {{"id", call.id}, {"function", std::move(function)}};
  }

  std::string close_call() {
    if (!call_) return {};
    Json line = part("", "", Json::array({call_of(*call_)}));
    add_logprobs(line, call_tokens_);
    call_.reset();
    call_tokens_.clear();
    return line_of(std::move(line));
  }

  void add_logprobs(Json& line, const std::vector<TokenPiece>& tokens) const {
    if (context_.generation.sampling.wants_logprobs() && !tokens.empty()) line["logprobs"] = token_entries(tokens);
  }

  void add_end(Json& line, const Usage& usage) const {
    const RequestStats& stats = end_.stats;
    line["done_reason"] = end_.reason == AnswerEnd::Reason::kToolCalls ? "stop" : openai_reason(end_.reason);
    line["done"] = true;
    line["total_duration"] = between(stats.submitted_ns, stats.finished_ns);
    line["load_duration"] = between(stats.submitted_ns, stats.admitted_ns);
    line["prompt_eval_count"] = usage.prompt_tokens;
    line["prompt_eval_duration"] = between(stats.admitted_ns, stats.prompt_done_ns);
    line["eval_count"] = usage.completion_tokens;
    line["eval_duration"] = between(stats.prompt_done_ns, stats.finished_ns);
    line["metrics"] = metrics(stats);
  }

  FormatContext context_;
  bool chat_;
  std::string created_at_;
  std::optional<ToolCallDelta> call_;  // begun, with the tokens that it came from
  std::vector<TokenPiece> call_tokens_;
  AnswerEnd end_;
};

}  // namespace

std::unique_ptr<Format> make_ollama_format(FormatContext context, bool chat) {
  return std::make_unique<OllamaFormat>(std::move(context), chat);
}

}  // namespace ashlar::server
