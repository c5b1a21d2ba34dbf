// SGLang's /generate: text so far, with figures beside it.

#include <algorithm>

#include "server/api/formats.h"
#include "server/api/wire.h"

namespace ashlar::server {
namespace {

class GenerateFormat : public Format {
 public:
  explicit GenerateFormat(FormatContext context)
      : context_(std::move(context)),
        answers_(context_.generation.prompts.size() * context_.generation.n),
        counts_(answers_.size()) {
    for (size_t i = 0; i < answers_.size(); ++i) answers_[i].end.index = static_cast<int32_t>(i);
  }

  std::string body(const std::vector<FinishedAnswer>& answers, const Usage&) override {
    Json list = Json::array();
    for (const FinishedAnswer& answer : answers) list.push_back(object(answer, true));
    return to_line(is_list() ? list : list.at(0));
  }

  std::string begin(const Usage& prompt_usage) override {
    prompt_usage_ = prompt_usage;
    return {};
  }

  std::string delta(const AnswerDelta& delta) override {
    FinishedAnswer& answer = answers_[delta.index];
    append(answer, delta);
    counts_[delta.index] += delta.n_tokens;
    return event(indexed(object(answer, false), delta.index));
  }

  std::string end(const AnswerEnd& end) override {
    FinishedAnswer& answer = answers_[end.index];
    answer.end = end;
    return event(indexed(object(answer, true), end.index));
  }

  std::string finish(const Usage&) override { return kDone; }
  std::string failed(const ApiError& error) override { return event(openai_error(error)) + kDone; }

 private:
  bool is_list() const { return context_.generation.batched || answers_.size() > 1; }

  Json indexed(Json object, int32_t index) const {
    if (is_list()) object["index"] = index;
    return object;
  }

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
        if (!end.stop_string.empty()) stop["matched"] = end.stop_string;
        return stop;
      }
      case AnswerEnd::Reason::kLength:
        return {{"type", "length"}, {"length", end.stats.generated_tokens}};
      default:
        return {{"type", "abort"}, {"message", end.error.empty() ? "cancelled" : end.error}};
    }
  }

  /// [logprob, id, text or null]
  Json triple(double value, int32_t id, const std::string& bytes) const {
    Json text = nullptr;
    if (context_.generation.repeated.value("return_text_in_logprobs", false)) text = token_text(bytes);
    return Json::array({value, id, text});
  }

  void add_logprobs(const FinishedAnswer& answer, Json& meta) const {
    Json tokens = Json::array(), tops = Json::array(), steps = Json::array();
    for (const TokenPiece& piece : answer.tokens) {
      tokens.push_back(triple(finite_logprob(piece.logprobs.token), piece.id, piece.bytes));
      Json list = Json::array();
      const size_t n = std::min(static_cast<size_t>(std::max(0, piece.logprobs.n_top)), piece.top_bytes.size());
      for (size_t i = 0; i < n; ++i) {
        list.push_back(
            triple(finite_logprob(piece.logprobs.top_values[i]), piece.logprobs.top_ids[i], piece.top_bytes[i]));
      }
      tops.push_back(std::move(list));
      if (piece.step >= 0) steps.push_back(piece.step);
    }
    if (!steps.empty()) meta["output_token_steps"] = std::move(steps);
    meta["output_token_logprobs"] = std::move(tokens);
    if (context_.generation.sampling.top_logprobs > 0) meta["output_top_logprobs"] = std::move(tops);
  }

  static void add_speculation(const RequestStats& stats, Json& meta) {
    meta["spec_verify_ct"] = stats.verify_steps;
    meta["spec_accept_token_num"] = stats.accepted;
    meta["spec_draft_token_num"] = stats.drafted;
    meta["spec_accept_rate"] = stats.drafted > 0 ? static_cast<double>(stats.accepted) / stats.drafted : 0.0;
    meta["spec_accept_length"] = stats.verify_steps > 0 ? stats.mean_length() : 0.0;
  }

  Json object(const FinishedAnswer& answer, bool ended) const {
    const int32_t index = answer.end.index;
    const RequestStats& stats = answer.end.stats;
    Json meta = {{"id", id(index)}, {"finish_reason", ended ? reason(answer.end) : Json()}};
    if (ended) {
      meta["prompt_tokens"] = stats.prompt_tokens;
      meta["completion_tokens"] = stats.generated_tokens;
      meta["cached_tokens"] = stats.cached_tokens;
      meta["e2e_latency"] = static_cast<double>(stats.finished_ns - stats.submitted_ns) * 1e-9;
      if (!tells_blocks(stats)) add_speculation(stats, meta);
      meta["metrics"] = metrics(stats);
    } else {
      if (answers_.size() == 1) meta["prompt_tokens"] = prompt_usage_.prompt_tokens;
      meta["completion_tokens"] = counts_[index];
    }
    if (context_.generation.sampling.wants_logprobs()) add_logprobs(answer, meta);
    return {{"text", answer.reasoning + answer.content}, {"meta_info", std::move(meta)}};
  }

  FormatContext context_;
  std::vector<FinishedAnswer> answers_;  // so far
  std::vector<int32_t> counts_;
  Usage prompt_usage_;
};

}  // namespace

std::unique_ptr<Format> make_generate_format(FormatContext context) {
  return std::make_unique<GenerateFormat>(std::move(context));
}

}  // namespace ashlar::server
