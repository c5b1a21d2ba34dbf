// SPDX-License-Identifier: Apache-2.0
#include "server/service/job.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "server/api/wire.h"
#include "server/service/constraints.h"

namespace ashlar::server {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Tokens from `from` on that a page shows alike: all drafted or all the model's own, unmasked by one pass.
size_t run_length(const TokenChunk& chunk, size_t from) {
  const auto drafted = static_cast<size_t>(chunk.n_drafted);
  size_t end = from + 1;
  while (end < chunk.tokens.size() && end != drafted &&
         (chunk.unmask_pass.empty() || chunk.unmask_pass[end] == chunk.unmask_pass[from])) {
    ++end;
  }
  return end - from;
}

TokenChunk part_of(const TokenChunk& chunk, size_t from, size_t n) {
  const auto cut = [&](const auto& list, auto& out) {
    if (!list.empty())
      out.assign(list.begin() + static_cast<int64_t>(from), list.begin() + static_cast<int64_t>(from + n));
  };
  TokenChunk part;
  cut(chunk.tokens, part.tokens);
  cut(chunk.logprobs, part.logprobs);
  cut(chunk.unmask_pass, part.unmask_pass);
  part.n_drafted = std::clamp(chunk.n_drafted - static_cast<int32_t>(from), 0, static_cast<int32_t>(n));
  part.at = chunk.at + static_cast<int32_t>(from);
  return part;
}

}  // namespace

ApiError took_too_long() {
  return {504, "timeout_error", "the answer took longer than this server allows", "", "timeout", 0};
}

HttpResponse error_answer(Api api, const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_body(api, error);
  if (error.retry_after_s > 0) response.headers.push_back({"Retry-After", std::to_string(error.retry_after_s)});
  return response;
}

Job::Job(const Context& context, std::shared_ptr<Exchange> exchange, Api api, FormatContext format,
         std::vector<AnswerPlan> plans, int64_t arrived_ns)
    : context_(context),
      exchange_(std::move(exchange)),
      api_(api),
      generation_(format.generation),
      described_(std::move(format)),
      format_(make_format(api, described_)),
      arrived_ns_(arrived_ns),
      plans_(std::move(plans)),
      last_sent_ns_(arrived_ns) {
  const bool calls = generation_.tool_choice != ToolChoice::kNone;
  states_.reserve(plans_.size());
  int32_t last_prompt = -1;
  for (size_t i = 0; i < plans_.size(); ++i) {
    const AnswerPlan& plan = plans_[i];
    states_.push_back(
        {AnswerText(*context_.model, generation_, static_cast<int32_t>(i), plan.starts_in_reasoning, calls),
         {},
         {},
         {}});
    if (generation_.wants_prompt_logprobs()) {
      states_.back().prompt =
          PromptTokens(*context_.model->tokenizer, plan.request.prompt,
                       described_.prompt_texts.at(static_cast<size_t>(plan.prompt)), generation_.prompt_logprobs.from);
    }
    if (plan.prompt != last_prompt) usage_.prompt_tokens += static_cast<int32_t>(plan.request.prompt.size());
    last_prompt = plan.prompt;
  }
}

void Job::start() {
  std::vector<std::shared_ptr<EventSink>> sinks;
  try {
    for (size_t i = 0; i < plans_.size(); ++i) {
      sinks.push_back(context_.delivery->sink(shared_from_this(), static_cast<int32_t>(i)));
      if (context_.hidden) sinks[i] = context_.hidden_files->sink(context_.hidden, std::move(sinks[i]));
    }
    // Weak: the exchange holds the callback, and this holds the exchange.
    exchange_->on_gone([weak = weak_from_this()] {
      if (const auto job = weak.lock()) job->cancel();
    });
  } catch (const std::exception& error) {  // nothing is submitted that would end it
    set_broken(message_of(error));
    return finish();
  }
  submitting_ = true;
  for (size_t i = 0; i < plans_.size(); ++i) submit(i, sinks[i]);
}

// Not before there is something to send: what fails until then is reported with a status of its own.
void Job::begin_stream() {
  if (std::exchange(begun_, true)) return;
  exchange_->begin_stream(200, stream_type(api_));
  outbox_ += format_->begin(usage_);
}

void Job::on_tick(int64_t now_ns) {
  if (!generation_.stream || !submitting_ || broken_) return;
  const std::chrono::nanoseconds silent(now_ns - last_sent_ns_);
  if (silent < (begun_ ? context_.patience.between : context_.patience.begin)) return;
  begin_stream();
  last_sent_ns_ = now_ns;
  if (exchange_->backlog() > 0) return;  // it is not for want of something to read that the client reads nothing
  outbox_ += format_->keep_alive();
  flush();
}

// Once some answers are submitted, all must end.
void Job::submit(size_t index, const std::shared_ptr<EventSink>& sink) noexcept {
  EndEvent end{FinishReason::kError, {}, {}};
  try {
    Request request = std::move(plans_[index].request);
    request.sink = sink;
    if (wants_tokens()) states_[index].kept.prompt = request.prompt;
    const std::lock_guard lock(mutex_);
    if (cancelled_) {
      end.reason = FinishReason::kCancelled;
    } else {
      const Result<RequestId> id = context_.engine->submit(std::move(request));
      if (id) {
        states_[index].id = id.value();
        return;
      }
      end.error = id.error();
    }
  } catch (const std::exception& error) {
    end.error = copy_or_less(message_of(error));
  }
  sink->on_end(std::move(end));
}

void Job::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (const State& state : states_) {
    if (state.id != 0) context_.engine->cancel(state.id);
  }
}

void Job::time_out() {
  {
    const std::lock_guard lock(mutex_);
    timed_out_ = true;
  }
  cancel();
}

void Job::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    shut_down_ = true;
  }
  cancel();
}

void Job::stop_answer(State& state) {
  if (state.stopping) return;
  state.stopping = true;
  const std::lock_guard lock(mutex_);
  if (state.id != 0) context_.engine->cancel(state.id);
}

void Job::on_failure(const std::string& what) {
  set_broken(what.c_str());
  cancel();
}

void Job::set_broken(const char* what) noexcept {
  broken_ = true;
  try {
    failure_ = for_message(what);
  } catch (const std::exception&) {  // then without saying why
  }
}

// Events that a later one makes needless wait for a client that has not read the ones before.
void Job::on_pause() {
  constexpr size_t kEnough = size_t{256} << 10;
  if (begun_ && !broken_ && exchange_->backlog() < kEnough) outbox_ += format_->pause();
  flush();
}

void Job::flush() {
  if (outbox_.empty()) return;
  last_sent_ns_ = now_ns();
  if (!exchange_->send(std::exchange(outbox_, {}))) cancel();
}

void Job::on_tokens(int32_t answer, const TokenChunk& chunk) {
  if (broken_) return;
  State& state = states_[static_cast<size_t>(answer)];
  const int64_t now = now_ns();
  const auto n = static_cast<int64_t>(chunk.tokens.size());
  if (state.last_ns == 0) {
    context_.metrics->first_token.observe(seconds(now - arrived_ns_));
    if (first_token_ns_ == 0) first_token_ns_ = now;
  } else {
    context_.metrics->between_tokens.observe(seconds(now - state.last_ns) / static_cast<double>(n), n);
  }
  state.last_ns = now;
  if (wants_tokens()) state.kept.answer.insert(state.kept.answer.end(), chunk.tokens.begin(), chunk.tokens.end());
  if (!generation_.stream_blocks) return take(state, chunk);
  for (size_t from = 0; from < chunk.tokens.size();) {
    const size_t length = run_length(chunk, from);
    take(state, part_of(chunk, from, length));
    from += length;
  }
}

void Job::on_prompt(int32_t answer, const PromptChunk& chunk) {
  if (broken_) return;
  State& state = states_[static_cast<size_t>(answer)];
  state.prompt.take(chunk);
  if (generation_.stream) report_prompt(state);
}

// Of a stream, once.
void Job::report_prompt(State& state) {
  if (!generation_.wants_prompt_logprobs() || !state.prompt.complete() || std::exchange(state.prompt_reported, true))
    return;
  begin_stream();
  outbox_ += format_->prompt(static_cast<int32_t>(&state - states_.data()), state.prompt.pieces());
}

void Job::take(State& state, const TokenChunk& chunk) {
  emit(state, state.text.take(chunk));
  if (state.text.stopped()) stop_answer(state);
}

void Job::emit(State& state, const std::vector<AnswerDelta>& deltas) {
  for (const AnswerDelta& delta : deltas) {
    if (context_.keep_texts || !generation_.stream) append(state.finished, delta);
    if (!generation_.stream) continue;
    begin_stream();
    report_prompt(state);  // which has come, or has no token that gets a log-probability
    outbox_ += format_->delta(delta);
  }
}

AnswerEnd Job::describe(const State& state, const EndEvent& end) const {
  AnswerEnd out;
  out.index = static_cast<int32_t>(&state - states_.data());
  out.stats = end.stats;
  out.error = end.error;
  out.of_request = end.of_request;
  out.tokens = state.text.tokens();
  out.stop_string = state.text.stop_string();
  if (!state.text.stopped()) out.stop_token = state.text.stop_token();
  if (state.text.stopped()) {
    out.reason = AnswerEnd::Reason::kStop;
  } else {
    switch (end.reason) {
      case FinishReason::kStop:
        out.reason = AnswerEnd::Reason::kStop;
        break;
      case FinishReason::kLength:
        out.reason = AnswerEnd::Reason::kLength;
        break;
      case FinishReason::kCancelled:
        out.reason = AnswerEnd::Reason::kCancelled;
        break;
      case FinishReason::kError:
        out.reason = AnswerEnd::Reason::kError;
        break;
    }
  }
  if (out.reason == AnswerEnd::Reason::kStop && state.text.called()) out.reason = AnswerEnd::Reason::kToolCalls;
  return out;
}

// Whatever happens, the request ends once all its answers have.
void Job::on_end(int32_t answer, const EndEvent& end) {
  try {
    conclude(answer, end);
  } catch (const std::exception& error) {
    set_broken(message_of(error));
  }
  if (++ended_ == static_cast<int32_t>(states_.size())) finish();
}

void Job::conclude(int32_t answer, const EndEvent& end) {
  State& state = states_[static_cast<size_t>(answer)];
  if (!broken_) emit(state, state.text.finish());
  state.finished.end = describe(state, end);
  // The request fails with it, so that the other answers will not be read.
  if (!generation_.stream && state.finished.end.reason == AnswerEnd::Reason::kError) cancel();
  const RequestStats& stats = end.stats;
  context_.metrics->answer_ended(stats, name_of(state.finished.end.reason));
  if (stats.admitted_ns > 0) {
    context_.metrics->queue.observe(seconds(stats.admitted_ns - stats.submitted_ns));
    if (queue_ns_ == 0) queue_ns_ = stats.admitted_ns - stats.submitted_ns;
  }
  usage_.completion_tokens += state.text.tokens();
  usage_.reasoning_tokens += state.text.reasoning_tokens();
  const bool first_of_prompt =
      answer == 0 || plans_[static_cast<size_t>(answer)].prompt != plans_[static_cast<size_t>(answer) - 1].prompt;
  if (first_of_prompt) usage_.cached_tokens += stats.cached_tokens;
  add_stats(total_, stats);
  // An answer that failed or was cut off has no end of its own: the request fails.
  using Reason = AnswerEnd::Reason;
  const bool whole = state.finished.end.reason != Reason::kError && state.finished.end.reason != Reason::kCancelled;
  if (!generation_.stream || broken_ || !whole) return;
  begin_stream();
  report_prompt(state);
  outbox_ += format_->end(state.finished.end);
}

// Why the request fails, if it does.
std::optional<ApiError> Job::problem() {
  if (broken_) return ApiError{500, "server_error", "the server failed on this request: " + failure_, "", "", 0};
  for (const State& state : states_) {
    if (state.finished.end.reason != AnswerEnd::Reason::kError) continue;
    const AnswerEnd& end = state.finished.end;
    if (!end.of_request) return ApiError{500, "server_error", end.error, "", "", 0};
    return ApiError{400, "invalid_request_error", end.error, field_of_constraint(generation_), "", 0};
  }
  const std::lock_guard lock(mutex_);
  if (timed_out_) return took_too_long();
  const bool cut = std::any_of(states_.begin(), states_.end(), [](const State& state) {
    return state.finished.end.reason == AnswerEnd::Reason::kCancelled;
  });
  if (!cut || !shut_down_) return std::nullopt;
  return ApiError{503, "server_error", "the server is shutting down; the answer is not whole", "", "shutting_down", 10};
}

FinishedAnswer Job::finished(State& state) const {
  FinishedAnswer out = std::move(state.finished);
  out.prompt = std::move(state.prompt.pieces());
  if (generation_.return_token_ids) {
    out.prompt_ids = state.kept.prompt;
    out.ids = state.kept.answer;
    out.ids.resize(std::min(out.ids.size(), static_cast<size_t>(state.text.tokens())));
  }
  if (context_.hidden) out.hidden_states_path = context_.hidden->path().string();
  return out;
}

void Job::respond(const std::optional<ApiError>& error) {
  if (generation_.stream && (begun_ || !error)) {
    begin_stream();
    outbox_ += error ? format_->failed(*error) : format_->finish(usage_);
    flush();
    exchange_->finish();
  } else if (error) {
    exchange_->respond(error_answer(api_, *error));
  } else {
    std::vector<FinishedAnswer> answers;
    for (State& state : states_) answers.push_back(finished(state));
    std::string body = format_->body(answers, usage_);
    const bool sent = exchange_->respond({200, "application/json", std::move(body), {}});
    if (sent && context_.hidden) context_.hidden->keep();
    for (size_t i = 0; i < answers.size(); ++i) states_[i].finished = std::move(answers[i]);
  }
}

void Job::finish() {
  RequestRecord ended;
  try {
    std::optional<ApiError> error = problem();
    if (error) error->message = context_.model->without_folder(std::move(error->message));
    respond(error);
    ended = record(error);
  } catch (const std::exception&) {  // the exchange, once let go, answers the client
    ended.status = 500;
  }
  context_.metrics->whole_request.observe(seconds(now_ns() - arrived_ns_));
  {
    const std::lock_guard lock(mutex_);
    for (State& state : states_) state.id = 0;  // from here on the engine may be another, with other requests
  }
  context_.on_end(ended);
}

}  // namespace ashlar::server
