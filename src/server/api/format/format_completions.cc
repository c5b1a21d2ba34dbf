// SPDX-License-Identifier: Apache-2.0
// OpenAI's text completions.

#include <algorithm>

#include "server/api/format/formats.h"
#include "server/api/wire.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::server {
namespace {

/// Characters of a text that comes in pieces, those for broken bytes and one that has only begun included.
class Length {
 public:
  int64_t characters() const { return whole_ + (text_.in_character() ? 1 : 0); }
  void add(const std::string& bytes) {
    std::string decoded;
    text_.push(bytes, decoded);
    whole_ += std::count_if(decoded.begin(), decoded.end(),
                            [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  }

 private:
  int64_t whole_ = 0;
  text::Utf8Stream text_;
};

class CompletionsFormat : public Format {
 public:
  explicit CompletionsFormat(FormatContext context)
      : context_(std::move(context)),
        answers_(context_.generation.prompts.size() * context_.generation.n),
        lengths_(answers_) {}

  std::string body(const std::vector<FinishedAnswer>& answers, const Usage& usage) override {
    Json body = head();
    for (const FinishedAnswer& answer : answers) {
      add_stats(stats_, answer.end.stats);
      const int32_t index = answer.end.index;
      std::vector<TokenPiece> tokens = echoed(answer.prompt);
      tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
      Json made =
          choice(index, prefix(index) + answer.reasoning + answer.content, logprobs(index, tokens), reason(answer.end));
      if (const Json* wanted = prompt_logprobs()) {
        made["prompt_logprobs"] = prompt_entries(answer.prompt, wanted->get<int32_t>());
      }
      if (context_.generation.return_token_ids) {
        made["prompt_token_ids"] = answer.prompt_ids;
        made["token_ids"] = answer.ids;
      }
      if (!answer.hidden_states_path.empty()) {
        body["kv_transfer_params"] = {{"hidden_states_path", answer.hidden_states_path}};
      }
      body["choices"].push_back(std::move(made));
    }
    body["usage"] = openai_usage(usage);
    body["metrics"] = metrics(stats_);
    return to_line(body);
  }

  std::string begin(const Usage& prompt_usage) override {
    usage_.begin(prompt_usage);
    std::string out;
    if (context_.generation.wants_prompt_logprobs()) return out;
    for (size_t i = 0; i < answers_; ++i) {
      const std::string text = prefix(static_cast<int32_t>(i));
      if (!text.empty()) out += event(chunk(choice(static_cast<int32_t>(i), text, nullptr, nullptr)));
    }
    return out;
  }

  std::string prompt(int32_t index, const std::vector<TokenPiece>& tokens) override {
    return event(chunk(choice(index, prefix(index), logprobs(index, echoed(tokens)), nullptr)));
  }

  std::string delta(const AnswerDelta& delta) override {
    usage_.add(delta);
    std::string text = delta.reasoning + delta.content;
    const bool blocks = context_.generation.stream_blocks;
    if (text.empty() && !reports_tokens(delta, blocks)) return {};
    Json data = chunk(choice(delta.index, std::move(text), logprobs(delta.index, delta.tokens), nullptr));
    if (blocks) data["block"] = block_of(delta);
    return event(data);
  }

  std::string end(const AnswerEnd& end) override {
    add_stats(stats_, end.stats);
    usage_.end(end);
    ++ended_;
    Json data = chunk(choice(end.index, "", nullptr, reason(end)));
    if (ended_ == answers_ && !context_.generation.include_usage) data["metrics"] = metrics(stats_);
    return event(data);
  }

  std::string finish(const Usage& usage) override {
    if (!context_.generation.include_usage) return kDone;
    Json data = head();
    data["usage"] = openai_usage(usage);
    data["metrics"] = metrics(stats_);
    return event(data) + kDone;
  }

  std::string failed(const ApiError& error) override { return event(openai_error(error)) + kDone; }

 private:
  Json head() const {
    return {{"id", "cmpl-" + context_.id},
            {"object", "text_completion"},
            {"created", context_.created_s},
            {"model", context_.model},
            {"choices", Json::array()}};
  }

  static const char* reason(const AnswerEnd& end) {
    return end.reason == AnswerEnd::Reason::kToolCalls ? "stop" : openai_reason(end.reason);
  }

  /// The prompt, where it is wanted before the answer.
  std::string prefix(int32_t index) const {
    const auto prompt = static_cast<size_t>(index / context_.generation.n);
    return context_.generation.echo && prompt < context_.prompt_texts.size() ? context_.prompt_texts[prompt] : "";
  }

  /// vLLM's list next to a choice: how many likely tokens it names, or null.
  const Json* prompt_logprobs() const {
    const auto found = context_.generation.repeated.find("prompt_logprobs");
    return found == context_.generation.repeated.end() ? nullptr : &*found;
  }

  std::vector<TokenPiece> echoed(const std::vector<TokenPiece>& prompt) const {
    const bool lists = context_.generation.echo && context_.generation.sampling.wants_logprobs();
    return lists ? prompt : std::vector<TokenPiece>();
  }

  Json logprobs(int32_t index, const std::vector<TokenPiece>& tokens) {
    if (!context_.generation.sampling.wants_logprobs()) return nullptr;
    Json texts = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
    Json steps = Json::array();
    for (const TokenPiece& piece : tokens) {
      texts.push_back(token_text(piece.bytes));
      values.push_back(piece.has_logprob ? Json(finite_logprob(piece.logprobs.token)) : Json());
      offsets.push_back(lengths_[index].characters());
      if (piece.in_text) lengths_[index].add(piece.bytes);
      tops.push_back(piece.has_logprob ? top(piece, context_.generation.sampling.top_logprobs) : Json());
      if (piece.step >= 0) steps.push_back(piece.step);
    }
    Json out = {{"tokens", texts}, {"token_logprobs", values}, {"top_logprobs", tops}, {"text_offset", offsets}};
    if (!steps.empty()) out["token_steps"] = std::move(steps);
    return out;
  }

  /// By text, so of tokens that read the same (halves of characters) the most likely one is listed.
  static Json top(const TokenPiece& piece, int32_t most) {
    Json out = Json::object();
    const int32_t listed = std::clamp(piece.logprobs.n_top, 0, most);
    const size_t n = std::min(static_cast<size_t>(listed), piece.top_bytes.size());
    for (size_t i = 0; i < n; ++i)
      out.emplace(token_text(piece.top_bytes[i]), finite_logprob(piece.logprobs.top_values[i]));
    out.emplace(token_text(piece.bytes), finite_logprob(piece.logprobs.token));
    return out;
  }

  static Json choice(int32_t index, std::string text, Json logprobs, Json reason) {
    return {{"index", index},
            {"text", std::move(text)},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", std::move(reason)}};
  }
  Json chunk(Json choice) const {
    Json data = head();
    if (context_.generation.usage_in_chunks) {
      data["usage"] = usage_.of(choice["index"].get<int32_t>());
    } else if (context_.generation.include_usage) {
      data["usage"] = nullptr;
    }
    data["choices"].push_back(std::move(choice));
    return data;
  }

  FormatContext context_;
  size_t answers_;
  std::vector<Length> lengths_;  // of each answer so far
  RunningUsage usage_;
  RequestStats stats_;
  size_t ended_ = 0;
};

}  // namespace

std::unique_ptr<Format> make_completions_format(FormatContext context) {
  return std::make_unique<CompletionsFormat>(std::move(context));
}

}  // namespace ashlar::server
