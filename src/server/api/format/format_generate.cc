// SPDX-License-Identifier: Apache-2.0
// SGLang's /generate: text so far, with figures.

#include <algorithm>

#include "server/api/format/formats.h"
#include "server/api/wire.h"

namespace ashlar::server {
namespace {

/// What a client has been sent of an answer, as JSON that only grows: every event of a stream repeats all of it.
struct Sent {
  std::string text;                 // without its quotes
  std::string tokens, tops, steps;  // members of lists
  std::string prompt, prompt_tops;  // the same of the prompt
  int32_t n_tokens = 0;
  bool news = false;  // that no event has reported
};

void add_item(std::string& list, const std::string& item) {
  if (!list.empty()) list += ',';
  list += item;
}

class GenerateFormat : public Format {
 public:
  explicit GenerateFormat(FormatContext context)
      : context_(std::move(context)), sent_(context_.generation.prompts.size() * context_.generation.n) {}

  std::string body(const std::vector<FinishedAnswer>& answers, const Usage&) override {
    std::string list;
    for (const FinishedAnswer& answer : answers) {
      Sent sent;
      add(answer.reasoning + answer.content, answer.tokens, sent);
      add_tokens(answer.prompt, sent.prompt, sent.prompt_tops);
      add_item(list, object(sent, answer.end.index, &answer.end) + "}");
    }
    return is_list() ? "[" + list + "]" : list;
  }

  std::string begin(const Usage& prompt_usage) override {
    prompt_usage_ = prompt_usage;
    return {};
  }

  std::string prompt(int32_t index, const std::vector<TokenPiece>& tokens) override {
    add_tokens(tokens, sent_[index].prompt, sent_[index].prompt_tops);
    return {};
  }

  // An event supersedes those before it, so one that another follows at once need not be written.
  std::string delta(const AnswerDelta& delta) override {
    Sent& sent = sent_[delta.index];
    add(delta.reasoning + delta.content, delta.tokens, sent);
    sent.n_tokens += delta.n_tokens;
    sent.news = true;
    return {};
  }

  std::string pause() override {
    std::string out;
    for (size_t i = 0; i < sent_.size(); ++i) {
      if (sent_[i].news) out += event_of(static_cast<int32_t>(i), nullptr);
    }
    return out;
  }

  std::string end(const AnswerEnd& end) override { return event_of(end.index, &end); }
  std::string finish(const Usage&) override { return kDone; }
  std::string failed(const ApiError& error) override { return pause() + event(openai_error(error)) + kDone; }

 private:
  bool is_list() const { return context_.generation.batched || sent_.size() > 1; }

  std::string id(int32_t index) const {
    const auto prompt = static_cast<size_t>(index / context_.generation.n);
    if (prompt < context_.generation.ids.size()) return context_.generation.ids[prompt];
    return is_list() ? context_.id + "-" + std::to_string(index) : context_.id;
  }

  static Json reason(const AnswerEnd& end) {
    switch (end.reason) {
      case AnswerEnd::Reason::kStop:
      case AnswerEnd::Reason::kToolCalls: {
        Json stop = {{"type", "stop"}};
        if (!end.stop_string.empty()) {
          stop["matched"] = end.stop_string;
        } else if (end.stop_token) {
          stop["matched"] = *end.stop_token;
        }
        return stop;
      }
      case AnswerEnd::Reason::kLength:
        return {{"type", "length"}, {"length", end.tokens}};
      default:
        return {{"type", "abort"}, {"message", end.error.empty() ? "cancelled" : end.error}};
    }
  }

  /// [logprob, id, text or null]
  Json triple(const Json& value, int32_t id, const std::string& bytes) const {
    Json text = nullptr;
    if (context_.generation.repeated.value("return_text_in_logprobs", false)) text = token_text(bytes);
    return Json::array({value, id, text});
  }

  void add(const std::string& text, const std::vector<TokenPiece>& tokens, Sent& sent) const {
    const std::string quoted = to_line(text);
    sent.text.append(quoted, 1, quoted.size() - 2);
    add_tokens(tokens, sent.tokens, sent.tops);
    for (const TokenPiece& piece : tokens) {
      if (piece.step >= 0) add_item(sent.steps, std::to_string(piece.step));
    }
  }

  void add_tokens(const std::vector<TokenPiece>& tokens, std::string& own, std::string& tops) const {
    for (const TokenPiece& piece : tokens) {
      const Json value = piece.has_logprob ? Json(finite_logprob(piece.logprobs.token)) : Json();
      add_item(own, to_line(triple(value, piece.id, piece.bytes)));
      Json list = Json::array();
      const size_t n = std::min(static_cast<size_t>(std::max(0, piece.logprobs.n_top)), piece.top_bytes.size());
      for (size_t i = 0; i < n; ++i) {
        list.push_back(
            triple(finite_logprob(piece.logprobs.top_values[i]), piece.logprobs.top_ids[i], piece.top_bytes[i]));
      }
      add_item(tops, piece.has_logprob ? to_line(list) : "null");
    }
  }

  static void add_speculation(const RequestStats& stats, Json& meta) {
    meta["spec_verify_ct"] = stats.verify_steps;
    meta["spec_accept_token_num"] = stats.accepted;
    meta["spec_draft_token_num"] = stats.drafted;
    meta["spec_accept_rate"] = stats.drafted > 0 ? static_cast<double>(stats.accepted) / stats.drafted : 0.0;
    meta["spec_accept_length"] = stats.verify_steps > 0 ? stats.mean_length() : 0.0;
  }

  /// meta_info without what grows; `end` is null before it.
  Json figures(const Sent& sent, int32_t index, const AnswerEnd* end) const {
    Json meta = {{"id", id(index)}, {"finish_reason", end != nullptr ? reason(*end) : Json()}};
    if (end == nullptr) {
      if (sent_.size() == 1) meta["prompt_tokens"] = prompt_usage_.prompt_tokens;
      meta["completion_tokens"] = sent.n_tokens;
      return meta;
    }
    const RequestStats& stats = end->stats;
    meta["prompt_tokens"] = stats.prompt_tokens;
    meta["completion_tokens"] = end->tokens;
    meta["cached_tokens"] = stats.cached_tokens;
    meta["e2e_latency"] = static_cast<double>(stats.finished_ns - stats.submitted_ns) * 1e-9;
    if (!counts_blocks(stats)) add_speculation(stats, meta);
    meta["metrics"] = metrics(stats);
    return meta;
  }

  /// The object of an answer, up to its closing bracket.
  std::string object(const Sent& sent, int32_t index, const AnswerEnd* end) const {
    std::string out = "{\"text\":\"" + sent.text + "\",\"meta_info\":" + to_line(figures(sent, index, end));
    if (context_.generation.sampling.wants_logprobs()) {
      out.pop_back();
      const auto list = [&out](const char* name, const std::string& members) {
        out.append(",\"").append(name).append("\":[").append(members).append("]");
      };
      if (context_.generation.wants_prompt_logprobs()) {
        list("input_token_logprobs", sent.prompt);
        if (context_.generation.sampling.top_logprobs > 0) list("input_top_logprobs", sent.prompt_tops);
      }
      if (!sent.steps.empty()) list("output_token_steps", sent.steps);
      list("output_token_logprobs", sent.tokens);
      if (context_.generation.sampling.top_logprobs > 0) list("output_top_logprobs", sent.tops);
      out += '}';
    }
    return out;
  }

  std::string event_of(int32_t index, const AnswerEnd* end) {
    Sent& sent = sent_[index];
    sent.news = false;
    const std::string name = is_list() ? ",\"index\":" + std::to_string(index) : "";
    return "data: " + object(sent, index, end) + name + "}\n\n";
  }

  FormatContext context_;
  std::vector<Sent> sent_;  // one an answer
  Usage prompt_usage_;
};

}  // namespace

std::unique_ptr<Format> make_generate_format(FormatContext context) {
  return std::make_unique<GenerateFormat>(std::move(context));
}

}  // namespace ashlar::server
