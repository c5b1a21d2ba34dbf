// SPDX-License-Identifier: Apache-2.0
// Anthropic's messages. The answer is a list of blocks; a body is what its stream says.

#include "generate/chat_prompt.h"
#include "server/api/format/formats.h"
#include "server/api/wire.h"

namespace ashlar::server {
namespace {

class MessagesFormat : public Format {
 public:
  explicit MessagesFormat(FormatContext context) : context_(std::move(context)) {}

  std::string body(const std::vector<FinishedAnswer>& answers, const Usage& total) override {
    for (const FinishedAnswer& answer : answers) {
      for (const AnswerDelta& part : parts_of(answer)) delta(part);
      end(answer.end);
    }
    Json body = message();
    body["content"] = blocks_;
    body.update(stop());
    body["usage"] = usage(total);
    body["metrics"] = metrics(stats_);
    return to_line(body);
  }

  std::string begin(const Usage& prompt_usage) override {
    Json start = message();
    start.update({{"content", Json::array()}, {"stop_reason", nullptr}, {"stop_sequence", nullptr}});
    start["usage"] = usage(prompt_usage);
    return send("message_start", {{"message", std::move(start)}});
  }

  std::string delta(const AnswerDelta& delta) override {
    std::string out;
    if (!delta.reasoning.empty()) {
      if (kind() != "thinking") out += open({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      out += add("thinking", delta.reasoning, "thinking_delta");
    }
    if (!delta.content.empty()) {
      if (kind() != "text") out += open({{"type", "text"}, {"text", ""}});
      out += add("text", delta.content, "text_delta");
    }
    for (const ToolCallDelta& call : delta.tool_calls) out += call_part(call);
    return out;
  }

  std::string end(const AnswerEnd& end) override {
    std::string out = close();
    end_ = end;
    add_stats(stats_, end.stats);
    return out;
  }

  std::string finish(const Usage& total) override {
    return send("message_delta", {{"delta", stop()}, {"usage", usage(total)}, {"metrics", metrics(stats_)}}) +
           send("message_stop", Json::object());
  }

  std::string keep_alive() override { return send("ping", Json::object()); }

  std::string failed(const ApiError& error) override { return close() + error_event(error); }

 private:
  static std::string send(const std::string& type, const Json& fields) {
    Json data = {{"type", type}};
    data.update(fields);
    return event(type, data);
  }
  static std::string error_event(const ApiError& error) {
    return "event: error\ndata: " + error_body(Api::kMessages, error) + "\n\n";
  }

  Json message() const {
    return {{"id", "msg_" + context_.id}, {"type", "message"}, {"role", "assistant"}, {"model", context_.model}};
  }

  // This API counts cached tokens apart.
  static Json usage(const Usage& usage) {
    return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", usage.cached_tokens},
            {"output_tokens", usage.completion_tokens}};
  }

  Json stop() const {
    const char* reason = "max_tokens";
    if (end_.reason == AnswerEnd::Reason::kStop) reason = end_.stop_string.empty() ? "end_turn" : "stop_sequence";
    if (end_.reason == AnswerEnd::Reason::kToolCalls) reason = "tool_use";
    return {{"stop_reason", reason}, {"stop_sequence", end_.stop_string.empty() ? Json() : Json(end_.stop_string)}};
  }

  std::string kind() const { return block_.is_null() ? "" : block_["type"].get<std::string>(); }

  std::string open(Json block) {
    std::string out = close();
    block_ = std::move(block);
    return out + send("content_block_start", {{"index", blocks_.size()}, {"content_block", block_}});
  }

  std::string close() {
    if (block_.is_null()) return {};
    const std::string out = send("content_block_stop", {{"index", blocks_.size()}});
    if (kind() == "tool_use") block_["input"] = arguments_object(arguments_);
    blocks_.push_back(std::move(block_));
    block_ = nullptr;
    return out;
  }

  /// Text to the open block.
  std::string add(const char* name, const std::string& text, const char* type) {
    block_[name].get_ref<std::string&>() += text;
    return send_delta({{"type", type}, {name, text}});
  }
  std::string send_delta(Json delta) const {
    return send("content_block_delta", {{"index", blocks_.size()}, {"delta", std::move(delta)}});
  }

  std::string call_part(const ToolCallDelta& call) {
    std::string out;
    if (kind() != "tool_use" || call.index != call_index_) {
      call_index_ = call.index;
      out = close();
      arguments_.clear();
      out += open({{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}});
    }
    arguments_ += call.arguments;
    if (!call.arguments.empty()) out += send_delta({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
    return out;
  }

  FormatContext context_;
  Json blocks_ = Json::array();  // that are complete
  Json block_;                   // the open one, or null
  std::string arguments_;        // of the open tool_use
  int32_t call_index_ = -1;
  AnswerEnd end_;
  RequestStats stats_;
};

}  // namespace

std::unique_ptr<Format> make_messages_format(FormatContext context) {
  return std::make_unique<MessagesFormat>(std::move(context));
}

}  // namespace ashlar::server
