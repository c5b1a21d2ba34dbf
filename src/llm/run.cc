// SPDX-License-Identifier: Apache-2.0
#include "llm/run.h"

#include <algorithm>

#include "llm/checks.h"

namespace ashlar {
namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<LlmLogprob> logprobs_of(const std::vector<TokenLogprobs>& in) {
  std::vector<LlmLogprob> out(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    out[i].token = in[i].token;
    for (int32_t k = 0; k < in[i].n_top; ++k) out[i].top.emplace_back(in[i].top_ids[k], in[i].top_values[k]);
  }
  return out;
}

double seconds(int64_t from_ns, int64_t to_ns) {
  return from_ns == 0 || to_ns <= from_ns ? 0 : static_cast<double>(to_ns - from_ns) * 1e-9;
}

LlmFigures figures_of(const RequestStats& stats) {
  LlmFigures out;
  out.prompt_tokens = stats.prompt_tokens;
  out.cached_tokens = stats.cached_tokens;
  out.generated_tokens = stats.generated_tokens;
  out.forwards = stats.verify_steps;
  out.tokens_per_forward = stats.mean_length();
  out.lengths = stats.lengths;
  out.drafted = stats.drafted;
  out.accepted = stats.accepted;
  out.ngram_accepted = stats.ngram_accepted;
  out.preemptions = stats.preemptions;
  out.queue_seconds = seconds(stats.submitted_ns, stats.admitted_ns);
  out.first_token_seconds = seconds(stats.submitted_ns, stats.first_token_ns);
  out.total_seconds = seconds(stats.submitted_ns, stats.finished_ns);
  const double decoding = seconds(stats.first_token_ns, stats.finished_ns);
  if (decoding > 0) out.tokens_per_second = (stats.generated_tokens - 1) / decoding;
  return out;
}

}  // namespace

LlmRun::Impl::Impl(std::shared_ptr<Session> session, std::vector<Job> jobs, std::function<void()> notify)
    : session_(std::move(session)),
      jobs_(std::move(jobs)),
      answers_(jobs_.size()),
      ids_(jobs_.size()),
      mailbox_(std::make_shared<Mailbox>(std::move(notify))) {
  texts_.reserve(jobs_.size());
  for (const Job& job : jobs_) {
    texts_.emplace_back(session_->tokenizer(), job.form->skip_special_tokens, job.form->stop);
  }
  try {
    submit_more();
  } catch (...) {
    cancel();
    throw;
  }
}

std::vector<LlmChunk> LlmRun::Impl::next(std::chrono::milliseconds timeout) {
  std::vector<LlmChunk> chunks;
  if (done()) return chunks;
  mailbox_->take(items_, timeout);
  for (Mailbox::Item& item : items_) {
    if (auto* chunk = std::get_if<TokenChunk>(&item.event)) {
      take_tokens(item.answer, *chunk, chunks);
    } else {
      finish(item.answer, std::get<EndEvent>(item.event), chunks);
    }
  }
  items_.clear();
  submit_more();
  return chunks;
}

void LlmRun::Impl::cancel() {
  cancelled_ = true;
  for (size_t i = 0; i < next_; ++i) {
    if (answers_[i].finish.empty()) session_->engine().cancel(ids_[i]);
  }
}

void LlmRun::Impl::submit_more() {
  for (; next_ < jobs_.size() && next_ - ended_ < kMaxOutstanding; ++next_) {
    if (cancelled_) {
      answers_[next_].finish = name_of(FinishReason::kCancelled);
      ++ended_;
      continue;
    }
    Result<RequestId> id = session_->engine().submit(request_of(next_));
    if (!id) {
      const std::string which = jobs_.size() > 1 ? "prompt " + std::to_string(next_) + ": " : "";
      throw Error("request", which + id.error());
    }
    ids_[next_] = id.value();
  }
}

Request LlmRun::Impl::request_of(size_t index) {
  Job& job = jobs_[index];
  Request request = job.form->request;
  request.prompt = std::move(job.prompt);
  if (job.form->constraint) request.constraint = job.form->constraint();
  request.sink = std::make_shared<MailboxSink>(mailbox_, index);
  return request;
}

void LlmRun::Impl::take_tokens(size_t index, TokenChunk& in, std::vector<LlmChunk>& out) {
  if (texts_[index].stopped()) return;
  OutputText::Delta delta = texts_[index].push(in.tokens);
  const size_t n = delta.consumed;
  in.tokens.resize(n);
  if (!in.logprobs.empty()) in.logprobs.resize(n);
  if (!in.unmask_pass.empty()) in.unmask_pass.resize(n);
  LlmChunk chunk;
  chunk.index = index;
  chunk.tokens = std::move(in.tokens);
  chunk.logprobs = logprobs_of(in.logprobs);
  chunk.unmask_pass = std::move(in.unmask_pass);
  chunk.n_drafted = std::min(in.n_drafted, static_cast<int32_t>(n));
  LlmAnswer& answer = answers_[index];
  append(answer.tokens, chunk.tokens);
  append(answer.logprobs, chunk.logprobs);
  append(answer.unmask_pass, chunk.unmask_pass);
  take_text(index, delta);
  chunk.text = std::move(delta.text);
  if (delta.stopped) session_->engine().cancel(ids_[index]);
  out.push_back(std::move(chunk));
}

void LlmRun::Impl::finish(size_t index, EndEvent& end, std::vector<LlmChunk>& out) {
  OutputText::Delta rest = texts_[index].flush();
  take_text(index, rest);
  LlmAnswer& answer = answers_[index];
  answer.figures = figures_of(end.stats);
  answer.error = std::move(end.error);
  answer.finish = texts_[index].stopped() ? name_of(FinishReason::kStop) : name_of(end.reason);
  ++ended_;
  LlmChunk chunk;
  chunk.index = index;
  chunk.text = std::move(rest.text);
  chunk.last = true;
  out.push_back(std::move(chunk));
}

void LlmRun::Impl::take_text(size_t index, const OutputText::Delta& delta) {
  answers_[index].text += delta.text;
  if (delta.stop_string) answers_[index].stop_string = jobs_[index].form->stop[*delta.stop_string];
}

LlmRun::LlmRun(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlmRun::~LlmRun() = default;
std::vector<LlmChunk> LlmRun::next(std::chrono::milliseconds timeout) {
  return with_own_errors([&] { return impl_->next(timeout); });
}
bool LlmRun::done() const { return impl_->done(); }
void LlmRun::cancel() { impl_->cancel(); }
const std::vector<LlmAnswer>& LlmRun::answers() const { return impl_->answers(); }

}  // namespace ashlar
