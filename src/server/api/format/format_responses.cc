// SPDX-License-Identifier: Apache-2.0
// OpenAI's responses. The answer is a list of items: reasoning, one message, calls; a body is what its stream says.

#include "server/api/format/formats.h"
#include "server/api/wire.h"

namespace ashlar::server {
namespace {

class ResponsesFormat : public Format {
 public:
  explicit ResponsesFormat(FormatContext context) : context_(std::move(context)) {}

  std::string body(const std::vector<FinishedAnswer>& answers, const Usage& usage) override {
    for (const FinishedAnswer& answer : answers) {
      for (const AnswerDelta& part : parts_of(answer)) delta(part);
      end(answer.end);
    }
    return to_line(finished(usage));
  }

  std::string begin(const Usage&) override {
    const Json start = {{"response", response("in_progress")}};
    std::string out = send("response.created", start);
    return out += send("response.in_progress", start);
  }

  std::string delta(const AnswerDelta& delta) override {
    std::string out;
    if (!delta.reasoning.empty()) {
      out += open("reasoning");
      text_ += delta.reasoning;
      out += send_part("response.reasoning_text.delta", {{"delta", delta.reasoning}});
    }
    // Tokens of reasoning and calls have no place in this API; those without text go with the text before them.
    const bool more_tokens = kind_of(delta) == AnswerDelta::Kind::kNone && kind_ == "message" && !delta.tokens.empty();
    if (!delta.content.empty() || more_tokens) out += content(delta);
    for (const ToolCallDelta& call : delta.tool_calls) out += call_part(call);
    return out;
  }

  std::string end(const AnswerEnd& end) override {
    end_ = end;
    std::string out = close(is_whole() ? "completed" : "incomplete");
    add_stats(stats_, end.stats);
    return out;
  }

  std::string finish(const Usage& usage) override {
    const Json data = finished(usage);
    const std::string status = data["status"];
    return send("response." + status, {{"response", data}});
  }

  std::string failed(const ApiError& error) override {
    std::string out = close("incomplete");
    Json data = response("failed");
    data["error"] = {{"code", "server_error"}, {"message", error.message}};
    return out += send("response.failed", {{"response", std::move(data)}});
  }

 private:
  std::string send(const std::string& type, Json fields) {
    Json data = {{"type", type}};
    data.update(fields);
    data["sequence_number"] = sequence_++;
    return event(type, data);
  }
  /// An event about the open item.
  std::string send_item(const std::string& type, Json fields) {
    Json data = {{"item_id", id_}, {"output_index", output_.size()}};
    data.update(fields);
    return send(type, std::move(data));
  }
  /// An event about the only part of the open item.
  std::string send_part(const std::string& type, Json fields) {
    Json data = {{"content_index", 0}};
    data.update(fields);
    return send_item(type, std::move(data));
  }

  std::string content(const AnswerDelta& delta) {
    std::string out = open("message");
    text_ += delta.content;
    Json entries = token_entries(delta.tokens);
    for (const Json& entry : entries) logprobs_.push_back(entry);
    return out + send_part("response.output_text.delta", {{"delta", delta.content}, {"logprobs", std::move(entries)}});
  }

  std::string call_part(const ToolCallDelta& call) {
    std::string out;
    if (kind_ != "function_call" || call.index != call_index_) {
      out = close();
      call_index_ = call.index;
      call_ = call;
      call_.arguments.clear();
      out += open("function_call");
    }
    text_ += call.arguments;
    if (!call.arguments.empty())
      out += send_item("response.function_call_arguments.delta", {{"delta", call.arguments}});
    return out;
  }

  Json part() const {
    if (kind_ == "reasoning") return {{"type", "reasoning_text"}, {"text", text_}};
    return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
  }

  /// The open item as it is now.
  Json item(const char* status, bool with_part) const {
    Json out = {{"type", kind_}, {"id", id_}, {"status", status}};
    if (kind_ == "function_call") {
      out.update({{"call_id", call_.id}, {"name", call_.name}, {"arguments", text_}});
      return out;
    }
    if (kind_ == "reasoning") out["summary"] = Json::array();
    if (kind_ == "message") out["role"] = "assistant";
    out["content"] = with_part ? Json::array({part()}) : Json::array();
    return out;
  }

  /// Makes the open item one of this kind; nothing if it is.
  std::string open(const std::string& kind) {
    if (kind_ == kind) return {};
    std::string out = close();
    kind_ = kind;
    id_ = (kind == "message"     ? "msg_"
           : kind == "reasoning" ? "rs_"
                                 : "fc_") +
          context_.id + "_" + std::to_string(output_.size());
    out += send("response.output_item.added", {{"output_index", output_.size()}, {"item", item("in_progress", false)}});
    if (kind != "function_call") out += send_part("response.content_part.added", {{"part", part()}});
    return out;
  }

  bool is_whole() const {
    return end_.reason == AnswerEnd::Reason::kStop || end_.reason == AnswerEnd::Reason::kToolCalls;
  }

  std::string close(const char* status = "completed") {
    if (kind_.empty()) return {};
    std::string out;
    if (kind_ == "function_call") {
      out = send_item("response.function_call_arguments.done", {{"name", call_.name}, {"arguments", text_}});
    } else {
      const bool message = kind_ == "message";
      Json fields = {{"text", text_}};
      if (message) fields["logprobs"] = logprobs_;
      out = send_part(message ? "response.output_text.done" : "response.reasoning_text.done", std::move(fields));
      out += send_part("response.content_part.done", {{"part", part()}});
    }
    Json done = item(status, true);
    out += send("response.output_item.done", {{"output_index", output_.size()}, {"item", done}});
    output_.push_back(std::move(done));
    kind_.clear();
    text_.clear();
    logprobs_ = Json::array();
    return out;
  }

  /// Function tools as the client sent them, complete.
  Json tools() const {
    Json list = Json::array();
    for (const Json& tool : context_.generation.repeated.value("tools", Json::array())) {
      if (tool.value("type", "") != "function") continue;
      list.push_back({{"type", "function"},
                      {"name", tool.value("name", "")},
                      {"description", tool.value("description", Json())},
                      {"parameters", tool.value("parameters", Json())},
                      {"strict", tool.value("strict", Json())}});
    }
    return list;
  }

  Json response(const char* status) const {
    const Generation& generation = context_.generation;
    const auto repeat = [&](const char* name, Json fallback) {
      return generation.repeated.value(name, std::move(fallback));
    };
    Json out = {
        {"id", "resp_" + context_.id}, {"object", "response"}, {"created_at", context_.created_s}, {"status", status}};
    out.update({{"background", false}, {"error", nullptr}, {"incomplete_details", nullptr}});
    out["instructions"] = repeat("instructions", nullptr);
    out["max_output_tokens"] = generation.max_tokens ? Json(*generation.max_tokens) : Json();
    out.update(
        {{"model", context_.model}, {"output", output_}, {"parallel_tool_calls", generation.parallel_tool_calls}});
    out["previous_response_id"] = nullptr;
    out["reasoning"] = repeat("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
    out.update({{"store", false}, {"temperature", generation.sampling.temperature}});
    out["text"] = repeat("text", {{"format", {{"type", "text"}}}});
    out["tool_choice"] = repeat("tool_choice", "auto");
    out["tools"] = tools();
    out.update({{"top_p", generation.sampling.top_p}, {"truncation", "disabled"}, {"usage", nullptr}});
    out["metadata"] = repeat("metadata", Json::object());
    return out;
  }

  Json finished(const Usage& usage) const {
    const bool whole = is_whole();
    Json data = response(whole ? "completed" : "incomplete");
    if (!whole) data["incomplete_details"] = {{"reason", "max_output_tokens"}};
    data["usage"] = {{"input_tokens", usage.prompt_tokens},
                     {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
                     {"output_tokens", usage.completion_tokens},
                     {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
                     {"total_tokens", int64_t{usage.prompt_tokens} + usage.completion_tokens}};
    data["metrics"] = metrics(stats_);
    return data;
  }

  FormatContext context_;
  int64_t sequence_ = 0;
  Json output_ = Json::array();  // items that are complete
  std::string kind_, id_;        // of the open item; empty: none
  std::string text_;             // of the open item: text or arguments
  Json logprobs_ = Json::array();
  int32_t call_index_ = -1;
  ToolCallDelta call_;
  AnswerEnd end_;
  RequestStats stats_;
};

}  // namespace

std::unique_ptr<Format> make_responses_format(FormatContext context) {
  return std::make_unique<ResponsesFormat>(std::move(context));
}

}  // namespace ashlar::server
