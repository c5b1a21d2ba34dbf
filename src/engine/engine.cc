// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine_options.h"
#include "engine/pipeline.h"
#include "engine/scheduler.h"

namespace ashlar {
class Engine::Impl {
 public:
  Impl(Ops& ops, std::unique_ptr<Decoder> decoder, const EngineOptions& options)
      : options_(options), decoder_(std::move(decoder)), slots_(options.max_sequences) {
    check_options(options);
    // Every running sequence must be able to decode in the same step, with room left for a piece of someone's prompt.
    // Where a span is as long as its sequence, they take turns.
    const StepShape shape = decoder_->shape(0);
    const int32_t decode_rows = (shape.whole_sequence ? 1 : options.max_sequences) * shape.rows;
    PromptRows rows = options.prompt_rows(ops);
    rows.max_alone =
        std::max({rows.max_alone, rows.max_shared, decode_rows + Scheduler::min_prompt_rows(rows.chunk_alone, shape)});
    const int32_t max_spans = (shape.joins_prefill ? 2 : 1) * options.max_sequences;
    const StepLimits limits = {rows.max_alone, max_spans, options.max_sequences};
    KvLayout layout;
    decoder_->register_state(layout, limits);
    const int32_t pages = choose_pages(options, layout, decoder_->max_positions());
    const int32_t snapshots = layout.states().empty() ? 0 : options.snapshots();
    memory_ = std::make_unique<KvMemory>(ops, layout, pages, options.max_sequences, snapshots);
    decoder_->start(limits, *memory_);
    scheduler_ = std::make_unique<Scheduler>(options, *decoder_, slots_, *memory_, rows);
    pipeline_ = std::make_unique<Pipeline>(*decoder_, slots_, options.depth, limits);
    thread_ = std::thread([this] { loop(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake();
    thread_.join();
  }

  Result<RequestId> submit(Request request);
  void cancel(RequestId id) {
    {
      const std::lock_guard lock(mutex_);
      cancelled_.push_back(id);
    }
    wake();
  }
  void wait_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return is_idle_ && arrived_.empty(); });
  }
  void drop_prefix_cache() {
    {
      const std::lock_guard lock(mutex_);
      drop_cache_ = true;
      is_idle_ = false;
    }
    wake();
    wait_idle();
  }
  EngineCounters counters() const {
    const int64_t progress = decoder_->last_progress_ns();
    const std::lock_guard lock(mutex_);
    EngineCounters counters = counters_;
    counters.last_progress_ns = std::max(counters.last_progress_ns, progress);
    return counters;
  }
  std::string lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  const Decoder& decoder() const { return *decoder_; }

 private:
  void loop();
  bool take_inbox();
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  void report();
  void advance(uint32_t news);
  bool extend();
  void wait_for_masks(uint32_t news);
  void wake() {
    wake_.notify_one();
    pipeline_->nudge();
  }
  void collect();
  void fail_everything(const char* reason);
  void lose_device(const char* reason);
  std::string check(const Request& request) const;

  const EngineOptions options_;
  std::unique_ptr<Decoder> decoder_;
  SlotTable slots_;
  std::unique_ptr<KvMemory> memory_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Pipeline> pipeline_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, idle_;
  std::vector<std::unique_ptr<Sequence>> arrived_;
  std::vector<RequestId> cancelled_;
  bool stop_ = false;
  bool drop_cache_ = false;
  bool is_idle_ = true;
  RequestId next_id_ = 1;
  EngineCounters counters_;
  std::string lost_;  // why nothing can be computed any more

  // The engine thread's own.
  std::vector<std::unique_ptr<Sequence>> arriving_;
  std::vector<RequestId> cancelling_;
  int64_t host_ns_ = 0, wait_ns_ = 0;
  bool is_lost_ = false;  // lost_ is not empty
  std::thread thread_;
};

std::string Engine::Impl::check(const Request& request) const {
  const int32_t vocab = decoder_->vocab();
  const int32_t longest = decoder_->max_positions();
  const auto size = static_cast<int64_t>(request.prompt.size());
  if (!request.sink) return "the request has no event sink";
  if (size == 0) return "the prompt is empty; expected at least one token";
  if (request.prompt_only ? size > longest : size >= longest) {
    return "the prompt has " + std::to_string(size) + " tokens; the context holds " + std::to_string(longest) +
           (request.prompt_only ? ": " + std::to_string(size - longest)
                                : ", one of them for the answer: " + std::to_string(size - longest + 1)) +
           " too many";
  }
  const auto outside = [vocab](int32_t id) { return id < 0 || id >= vocab; };
  if (const auto bad = std::find_if(request.prompt.begin(), request.prompt.end(), outside);
      bad != request.prompt.end()) {
    return "the prompt has token id " + std::to_string(*bad) + "; the vocabulary has " + std::to_string(vocab);
  }
  if (std::any_of(request.stop_ids.begin(), request.stop_ids.end(), outside)) {
    return "a stop id is outside the vocabulary of " + std::to_string(vocab);
  }
  if (request.max_tokens < 0)
    return "max_tokens is " + std::to_string(request.max_tokens) + "; expected 0 (no limit) or more";
  if (request.width < 0 || request.width > decoder_->max_width()) {
    return "width is " + std::to_string(request.width) + "; expected 0 (the default) to " +
           std::to_string(decoder_->max_width());
  }
  const PromptLogprobs& scores = request.prompt_logprobs;
  if (scores.from >= 0 && !decoder_->scores_prompts()) {
    return "this model has no log-probabilities of a prompt: what it computes for a token also sees tokens after it";
  }
  if (request.hidden_states && decoder_->hidden_row().layers == 0) {
    return "hidden states are asked for, and this engine was started without layers whose hidden states it reports";
  }
  if (scores.top < 0 || scores.top > kMaxTopLogprobs) {
    return "prompt_logprobs.top is " + std::to_string(scores.top) + "; expected 0 to " +
           std::to_string(kMaxTopLogprobs);
  }
  if (std::string wrong = decoder_->check(request.choice); !wrong.empty()) return wrong;
  return check_sampling(request.sampling, vocab);
}

Result<RequestId> Engine::Impl::submit(Request request) {
  if (std::string wrong = check(request); !wrong.empty()) return Failure{std::move(wrong)};
  auto sequence = std::make_unique<Sequence>();
  const auto length = static_cast<int32_t>(request.prompt.size());
  const int32_t longest = decoder_->max_positions();
  sequence->prompt_length = length;
  sequence->shape = decoder_->shape(request.width);
  const int32_t wanted = request.max_tokens > 0 ? request.max_tokens : sequence->shape.answer;
  sequence->next_scored = request.prompt_logprobs.from < 0 ? length : std::max(request.prompt_logprobs.from, 1);
  sequence->limit = wanted > 0 ? static_cast<int32_t>(std::min<int64_t>(int64_t{length} + wanted, longest)) : longest;
  if (request.prompt_only) sequence->limit = length;
  if (sequence->shape.whole_sequence) sequence->shape.rows = sequence->limit;
  sequence->tokens.reserve(sequence->limit);
  sequence->tokens = request.prompt;
  sequence->tokens.reserve(sequence->limit);
  sequence->pages.reserve(pages_for(sequence->shape.max_positions(sequence->limit, sequence->limit)));
  RequestStats& stats = sequence->stats;
  stats.prompt_tokens = length;
  stats.accepted_at.resize(decoder_->max_width());
  stats.drafted_at.resize(decoder_->max_width());
  stats.lengths.resize(decoder_->max_width() + 1);
  stats.unmasked_in_pass.resize(decoder_->block_size());
  stats.submitted_ns = now_ns();
  sequence->request = std::move(request);
  if (sequence->request.constraint) sequence->request.constraint->wake_with(pipeline_->signal());
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.empty()) return Failure{lost_};
    const int64_t waiting = counters_.waiting + static_cast<int64_t>(arrived_.size());
    if (waiting >= options_.max_queue) {
      return Failure{"the queue is full: " + std::to_string(waiting) + " requests wait already; try again later"};
    }
    arrived_.push_back(std::move(sequence));
    id = arrived_.back()->id = next_id_++;
    is_idle_ = false;
  }
  wake();
  return id;
}

// With the lock held.
void Engine::Impl::report() {
  scheduler_->report(counters_);
  counters_.host_ns = host_ns_;
  counters_.device_wait_ns = wait_ns_;
}

// A request of the first 100 ms, as from a client that asks again, finds the thread asleep; a later one interrupts the
// check.
void Engine::Impl::wait_for_work(std::unique_lock<std::mutex>& lock) {
  constexpr auto kBeforeCheck = std::chrono::milliseconds(100);
  const auto wanted = [this] { return stop_ || drop_cache_ || !arrived_.empty(); };
  for (bool checked = false; !checked && !wake_.wait_for(lock, kBeforeCheck, wanted);) {
    const uint32_t seen = pipeline_->news();
    lock.unlock();
    Interruption interruption([&] { return pipeline_->news() != seen; });
    checked = scheduler_->check_idle(interruption);
    lock.lock();
  }
  wake_.wait(lock, wanted);
}

bool Engine::Impl::take_inbox() {
  bool stopping = false;
  bool drop = false;
  {
    std::unique_lock lock(mutex_);
    if (scheduler_->empty() && pipeline_->inflight() == 0 && arrived_.empty() && !drop_cache_) {
      is_idle_ = true;
      report();
      idle_.notify_all();
      cancelled_.clear();  // nothing left that they could mean
      wait_for_work(lock);
    }
    arriving_.swap(arrived_);
    cancelling_.swap(cancelled_);
    stopping = stop_;
    drop = std::exchange(drop_cache_, false);
    report();
    counters_.waiting += static_cast<int32_t>(arriving_.size());
  }
  for (auto& sequence : arriving_) scheduler_->add(sequence);
  arriving_.clear();
  for (const RequestId id : cancelling_) scheduler_->cancel(id);
  cancelling_.clear();
  if (drop) scheduler_->cache().drop_published();
  return stopping;
}

// One turn: plan and launch the next step while the one before it runs, or let those in that have come since it was
// planned, then take in the oldest.
void Engine::Impl::advance(uint32_t news) {
  const int64_t begin = now_ns();
  const bool planned = pipeline_->full() ? extend() : scheduler_->plan(pipeline_->next());
  const int64_t decided = now_ns();
  host_ns_ += decided - begin;
  if (planned) pipeline_->launch();
  if (pipeline_->full() || (!planned && pipeline_->inflight() > 0)) {
    const bool done = pipeline_->await(news);
    const int64_t arrived = now_ns();
    wait_ns_ += arrived - decided;
    if (!done) return;  // somebody has come, or wants something else
    collect();
    if (is_lost_) fail_everything(lost_.c_str());
    host_ns_ += now_ns() - arrived;
  } else if (!planned && scheduler_->left_out()) {
    wait_for_masks(news);
  } else if (!planned && !scheduler_->empty()) {
    scheduler_->fail_oldest();
  }
}

// The next report says that it is over.
void Engine::Impl::wait_for_masks(uint32_t news) {
  {
    const std::lock_guard lock(mutex_);
    counters_.waits_for_masks = true;
  }
  pipeline_->wait(news);
}

// The step after the running one, with more in it; false if it stays as it is.
bool Engine::Impl::extend() {
  if (!scheduler_->has_room_for_waiting() || !pipeline_->reclaim()) return false;
  try {
    scheduler_->extend(pipeline_->next());
  } catch (...) {
    pipeline_->launch();  // who was in it counts on it
    throw;
  }
  return true;
}

// Requests are refused before those of the step end: a client that sees an end finds lost() set.
void Engine::Impl::collect() {
  Step& step = pipeline_->collect();
  if (step.device_lost) lose_device(step.error.c_str());
  scheduler_->collect(step);
}

void Engine::Impl::lose_device(const char* reason) {
  if (is_lost_) return;                    // the steps after it say the same
  std::string why = copy_or_less(reason);  // that of a step is written over
  const std::lock_guard lock(mutex_);
  lost_ = std::move(why);
  is_lost_ = true;
}

// Ends come first: what a step in flight would do with a sequence that goes on may need the memory that just lacked.
void Engine::Impl::fail_everything(const char* reason) {
  scheduler_->end_all(FinishReason::kError, reason);
  while (pipeline_->inflight() > 0) collect();
  for (auto& sequence : arriving_) {
    if (sequence) scheduler_->refuse(*sequence, reason);
  }
  arriving_.clear();
  cancelling_.clear();
}

void Engine::Impl::loop() {
  for (;;) {
    try {
      const uint32_t news = pipeline_->news();
      if (take_inbox()) {
        scheduler_->end_all(FinishReason::kCancelled, {});
        while (pipeline_->inflight() > 0) collect();
        return;
      }
      if (is_lost_) {
        fail_everything(lost_.c_str());  // who came in before it was known
      } else {
        advance(news);
      }
    } catch (const DeviceLost& error) {
      lose_device(error.what());
      fail_everything(lost_.c_str());
    } catch (const std::exception& error) {
      fail_everything(message_of(error));  // memory ran out; the requests end with it, the engine lives on
    }
  }
}

Engine::Engine(Ops& ops, std::unique_ptr<Decoder> decoder, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(ops, std::move(decoder), options)) {}
Engine::~Engine() = default;
Result<RequestId> Engine::submit(Request request) { return impl_->submit(std::move(request)); }
void Engine::cancel(RequestId id) { impl_->cancel(id); }
void Engine::wait_idle() { impl_->wait_idle(); }
EngineCounters Engine::counters() const { return impl_->counters(); }
std::string Engine::lost() const { return impl_->lost(); }
void Engine::drop_prefix_cache() { impl_->drop_prefix_cache(); }
int32_t Engine::max_positions() const { return impl_->decoder().max_positions(); }
int32_t Engine::vocab() const { return impl_->decoder().vocab(); }
int32_t Engine::max_width() const { return impl_->decoder().max_width(); }
int32_t Engine::block_size() const { return impl_->decoder().block_size(); }
bool Engine::scores_prompts() const { return impl_->decoder().scores_prompts(); }
HiddenRow Engine::hidden_row() const { return impl_->decoder().hidden_row(); }
std::string Engine::check(const MethodChoice& choice) const { return impl_->decoder().check(choice); }
std::string Engine::decoder_name() const { return impl_->decoder().name(); }

}  // namespace ashlar
