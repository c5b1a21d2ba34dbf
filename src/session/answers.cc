// SPDX-License-Identifier: Apache-2.0
#include "session/answers.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <variant>

#include "session/interrupt.h"
#include "session/mailbox.h"
#include "text/output/output_text.h"

namespace ashlar {
namespace {

constexpr size_t kMaxOutstanding = 512;             // below the engine's default queue
constexpr std::chrono::milliseconds kPatience{50};  // a signal handler cannot notify, so it is looked for now and then

class Runner {
 public:
  Runner(Engine& engine, const Tokenizer& tokenizer, std::vector<AnswerJob> jobs, AnswerListener& listener)
      : engine_(engine), listener_(listener), jobs_(std::move(jobs)), answers_(jobs_.size()), ids_(jobs_.size()) {
    texts_.reserve(jobs_.size());
    for (const AnswerJob& job : jobs_) texts_.emplace_back(tokenizer, true, job.stop);
  }

  std::vector<Answer> run() {
    std::list<Mailbox::Item> items;
    while (ended_ < jobs_.size()) {
      submit_more();
      if (ended_ == jobs_.size()) break;
      items.clear();
      mailbox_->take(items, kPatience);
      for (const Mailbox::Item& item : items) {
        if (const auto* chunk = std::get_if<TokenChunk>(&item.event)) {
          take_tokens(item.answer, *chunk);
        } else {
          finish(item.answer, std::get<EndEvent>(item.event));
        }
      }
      if (InterruptScope::requested() && !cancelled_) cancel_all();
    }
    return std::move(answers_);
  }

 private:
  void submit_more() {
    for (; next_ < jobs_.size() && next_ - ended_ < kMaxOutstanding; ++next_) {
      Answer& answer = answers_[next_];
      if (cancelled_) {
        answer.finish = "cancelled";
      } else {
        Result<RequestId> id = submit(jobs_[next_]);
        if (id) {
          ids_[next_] = id.value();
          continue;
        }
        answer.finish = "error";
        answer.error = id.error();
        answer.refused = true;
      }
      ++ended_;
      listener_.on_end(next_, answer);
    }
  }

  Result<RequestId> submit(AnswerJob& job) {
    if (!job.refusal.empty()) return Failure{job.refusal};
    job.request.sink = std::make_shared<MailboxSink>(mailbox_, next_);
    return engine_.submit(std::move(job.request));
  }

  // One token at a time, so that each piece of text is known to be drafted or not.
  void take_tokens(size_t index, const TokenChunk& chunk) {
    Answer& answer = answers_[index];
    for (size_t i = 0; i < chunk.tokens.size() && !texts_[index].stopped(); ++i) {
      answer.tokens.push_back(chunk.tokens[i]);
      if (!chunk.logprobs.empty()) answer.logprobs.push_back(chunk.logprobs[i]);
      if (!chunk.unmask_pass.empty()) answer.unmask_pass.push_back(chunk.unmask_pass[i]);
      show(index, texts_[index].push({&chunk.tokens[i], 1}), static_cast<int32_t>(i) < chunk.n_drafted);
      if (texts_[index].stopped()) engine_.cancel(ids_[index]);
    }
  }

  void show(size_t index, const OutputText::Delta& delta, bool drafted) {
    Answer& answer = answers_[index];
    if (delta.stop_string) answer.stop_string = jobs_[index].stop[*delta.stop_string];
    if (delta.text.empty()) return;
    answer.text += delta.text;
    listener_.on_text(index, delta.text, drafted);
  }

  void finish(size_t index, const EndEvent& end) {
    Answer& answer = answers_[index];
    show(index, texts_[index].flush(), false);
    answer.stats = end.stats;
    answer.error = end.error;
    answer.finish = texts_[index].stopped() ? "stop" : name_of(end.reason);
    ++ended_;
    listener_.on_end(index, answer);
  }

  void cancel_all() {
    cancelled_ = true;
    for (size_t i = 0; i < next_; ++i) engine_.cancel(ids_[i]);
  }

  Engine& engine_;
  AnswerListener& listener_;
  std::vector<AnswerJob> jobs_;
  std::vector<Answer> answers_;
  std::vector<RequestId> ids_;
  std::vector<OutputText> texts_;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  size_t next_ = 0;  // first job not submitted
  size_t ended_ = 0;
  bool cancelled_ = false;
};

}  // namespace

bool enough_for_a_rate(int64_t tokens, double seconds) { return tokens >= 4 && seconds >= 1e-3; }

double Answer::seconds() const {
  return stats.admitted_ns == 0 ? 0 : static_cast<double>(stats.finished_ns - stats.admitted_ns) * 1e-9;
}

double Answer::decode_tokens_per_second() const {
  const auto [tokens, ns] = stats.decoding();
  const double seconds = static_cast<double>(ns) * 1e-9;
  return enough_for_a_rate(tokens, seconds) ? static_cast<double>(tokens) / seconds : 0;
}

std::vector<Answer> run_answers(Engine& engine, const Tokenizer& tokenizer, std::vector<AnswerJob> jobs,
                                AnswerListener& listener) {
  return Runner(engine, tokenizer, std::move(jobs), listener).run();
}

}  // namespace ashlar
