// SPDX-License-Identifier: Apache-2.0
// OpenAI's chat completions.

#include "server/api/format/formats.h"
#include "server/api/wire.h"

namespace ashlar::server {
namespace {

class ChatFormat : public Format {
 public:
  explicit ChatFormat(FormatContext context) : context_(std::move(context)) {}

  std::string body(const std::vector<FinishedAnswer>& answers, const Usage& usage) override {
    Json body = head("chat.completion");
    for (const FinishedAnswer& answer : answers) {
      add_stats(stats_, answer.end.stats);
      body["choices"].push_back(choice(answer));
    }
    if (context_.generation.wants_prompt_logprobs()) {
      body["prompt_logprobs"] = prompt_entries(answers.front().prompt, context_.generation.prompt_logprobs.top);
    }
    body["usage"] = openai_usage(usage);
    body["metrics"] = metrics(stats_);
    return to_line(body);
  }

  std::string begin(const Usage& prompt_usage) override {
    usage_.begin(prompt_usage);
    std::string out;
    for (int32_t i = 0; i < context_.generation.n; ++i)
      out += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr);
    return out;
  }

  std::string delta(const AnswerDelta& delta) override {
    usage_.add(delta);
    std::string out;
    const auto part = [&](const char* name, Json value) {
      Json data =
          chunk_of(delta.index, {{name, std::move(value)}}, out.empty() ? logprobs(delta.tokens) : Json(), nullptr);
      if (context_.generation.stream_blocks && out.empty()) data["block"] = block_of(delta);
      out += event(data);
    };
    if (!delta.reasoning.empty() && shows_reasoning()) part("reasoning_content", delta.reasoning);
    if (!delta.content.empty()) part("content", delta.content);
    for (const ToolCallDelta& call : delta.tool_calls) part("tool_calls", Json::array({call_delta(call)}));
    if (out.empty() && reports_tokens(delta, context_.generation.stream_blocks)) part("content", "");
    return out;
  }

  std::string end(const AnswerEnd& end) override {
    add_stats(stats_, end.stats);
    usage_.end(end);
    ++ended_;
    Json data = chunk_of(end.index, Json::object(), nullptr, openai_reason(end.reason));
    if (ended_ == context_.generation.n && !context_.generation.include_usage) data["metrics"] = metrics(stats_);
    return event(data);
  }

  std::string finish(const Usage& usage) override {
    if (!context_.generation.include_usage) return kDone;
    Json data = head("chat.completion.chunk");
    data["usage"] = openai_usage(usage);
    data["metrics"] = metrics(stats_);
    return event(data) + kDone;
  }

  std::string failed(const ApiError& error) override { return event(openai_error(error)) + kDone; }

 private:
  bool shows_reasoning() const { return context_.generation.show_reasoning; }

  Json head(const char* object) const {
    return {{"id", "chatcmpl-" + context_.id},
            {"object", object},
            {"created", context_.created_s},
            {"model", context_.model},
            {"choices", Json::array()}};
  }

  Json logprobs(const std::vector<TokenPiece>& tokens) const {
    if (!context_.generation.sampling.wants_logprobs()) return nullptr;
    return {{"content", token_entries(tokens)}, {"refusal", nullptr}};
  }

  Json choice(const FinishedAnswer& answer) const {
    Json message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
    if (!answer.reasoning.empty() && shows_reasoning()) message["reasoning_content"] = answer.reasoning;
    if (!answer.tool_calls.empty()) {
      if (answer.content.empty()) message["content"] = nullptr;
      for (const ToolCallDelta& call : answer.tool_calls) message["tool_calls"].push_back(openai_call(call));
    }
    return {{"index", answer.end.index},
            {"message", std::move(message)},
            {"logprobs", logprobs(answer.tokens)},
            {"finish_reason", openai_reason(answer.end.reason)}};
  }

  // Clients put the parts together by index; only the first has a name.
  static Json call_delta(const ToolCallDelta& call) {
    if (!call.id.empty() || !call.name.empty()) {
      Json first = {{"index", call.index}};
      first.update(openai_call(call));
      return first;
    }
    return {{"index", call.index}, {"function", {{"arguments", call.arguments}}}};
  }

  Json chunk_of(int32_t index, Json delta, Json logprobs, Json reason) const {
    Json data = head("chat.completion.chunk");
    data["choices"].push_back({{"index", index},
                               {"delta", std::move(delta)},
                               {"logprobs", std::move(logprobs)},
                               {"finish_reason", std::move(reason)}});
    if (context_.generation.usage_in_chunks) {
      data["usage"] = usage_.of(index);
    } else if (context_.generation.include_usage) {
      data["usage"] = nullptr;
    }
    return data;
  }
  std::string chunk(int32_t index, Json delta, Json logprobs) const {
    return event(chunk_of(index, std::move(delta), std::move(logprobs), nullptr));
  }

  FormatContext context_;
  RunningUsage usage_;
  RequestStats stats_;
  int32_t ended_ = 0;
};

}  // namespace

std::unique_ptr<Format> make_chat_format(FormatContext context) {
  return std::make_unique<ChatFormat>(std::move(context));
}

}  // namespace ashlar::server
