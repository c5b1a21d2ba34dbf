#pragma once
// Models offline: load a folder or a .gguf file, generate, no server. Header-only over the libraries of src/; link
// ashlar_llm.
//
//   ashlar::LlmOptions options;
//   options.model = "models/pebble-11m";
//   const ashlar::Llm llm(options);
//   const auto answers = llm.generate({"Once upon a time", ashlar::chat("What is a harbour?")}, {.max_tokens = 64});
//
// Autoregressive models, with or without a drafter, and block-diffusion models alike. See examples/generate.cc.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "io/json.h"
#include "session/session.h"
#include "text/output/output_text.h"

namespace ashlar {

/// Model, drafter, device, memory, and `block`: how a block-diffusion model denoises.
using LlmOptions = SessionOptions;

/// A conversation for the model's chat template.
struct LlmChat {
  Json messages;                    ///< [{"role": "user", "content": "..."}, ...]
  Json tools = nullptr;             ///< null, or an array of function schemas
  Json variables = Json::object();  ///< further variables of the template
};

/// A text to continue as it is, token ids, or a conversation to answer.
using LlmPrompt = std::variant<std::string, std::vector<int32_t>, LlmChat>;

/// A conversation of one message.
inline LlmChat chat(const std::string& text) {
  return {.messages = Json::array({{{"role", "user"}, {"content", text}}})};
}

struct LlmParams {
  SamplingParams sampling = {};
  int32_t max_tokens = 0;              ///< 0: up to the context limit
  std::vector<std::string> stop = {};  ///< the answer ends before the first of these that appears
  std::vector<int32_t> stop_ids = {};  ///< end the answer besides the model's own; part of it
  bool ignore_eos = false;             ///< the model's own end tokens do not end the answer
  bool skip_special_tokens = true;
  MethodChoice choice = {};  ///< how to decode, where the method leaves a choice
  int32_t width = 0;         ///< most tokens a pass may decide; 0: the method's own, 1: plain decoding
  /// Makes the constraint of an answer, one object for each; empty: anything goes.
  std::function<std::shared_ptr<TokenConstraint>()> constraint = {};
};

/// News of one answer.
struct LlmChunk {
  size_t index = 0;                     ///< of the prompt
  std::string text;                     ///< whole characters; the concatenation is the answer's text
  std::vector<int32_t> tokens;          ///< up to here; the text comes later while a stop string is possible
  std::vector<TokenLogprobs> logprobs;  ///< as many, if asked for
  std::vector<int16_t> unmask_pass;     ///< as many for models of blocks: the pass over its block that unmasked each
  int32_t n_drafted = 0;                ///< how many of the tokens were accepted drafts, the first ones
  bool last = false;                    ///< the answer is complete: LlmRun::answers()[index]
};

/// A whole answer.
struct LlmAnswer {
  std::string text;
  std::vector<int32_t> tokens;          ///< stop token included; up to the one that completed a stop string
  std::vector<TokenLogprobs> logprobs;  ///< as many, if asked for
  std::vector<int16_t> unmask_pass;     ///< as many, for models of blocks
  std::string finish;                   ///< "stop", "length", "cancelled" or "error"; empty: not complete
  std::string stop_string;              ///< the one that ended it, if any
  std::string error;                    ///< why, for "error"
  RequestStats stats;
};

namespace llm_detail {

// Events of all answers of a run, put in by the engine's thread and taken out by the reader's. It outlives both.
class Mailbox {
 public:
  struct News {
    std::deque<std::pair<size_t, TokenChunk>> chunks;
    std::vector<std::pair<size_t, EndEvent>> ends;  // after all chunks of the same answer
    bool empty() const { return chunks.empty() && ends.empty(); }
  };

  Mailbox(size_t n_answers, std::function<void()> notify) : notify_(std::move(notify)) {
    news_.ends.reserve(n_answers);  // telling an end must not need memory
  }

  void put(size_t answer, TokenChunk chunk) {
    {
      const std::lock_guard lock(mutex_);
      news_.chunks.emplace_back(answer, std::move(chunk));
    }
    ring();
  }
  void end(size_t answer, EndEvent event) noexcept {
    {
      const std::lock_guard lock(mutex_);
      news_.ends.emplace_back(answer, std::move(event));
    }
    ring();
  }
  void take(News& out, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [this] { return !news_.empty(); });
    out.chunks.swap(news_.chunks);
    out.ends.assign(std::make_move_iterator(news_.ends.begin()), std::make_move_iterator(news_.ends.end()));
    news_.ends.clear();
  }

 private:
  // What users hang on to the bell is no business of the engine's thread.
  void ring() noexcept {
    ready_.notify_one();
    try {
      if (notify_) notify_();
    } catch (...) {
    }
  }

  const std::function<void()> notify_;
  std::mutex mutex_;
  std::condition_variable ready_;
  News news_;
};

class Sink final : public EventSink {
 public:
  Sink(std::shared_ptr<Mailbox> mailbox, size_t answer) : mailbox_(std::move(mailbox)), answer_(answer) {}
  void on_tokens(const TokensEvent& event) override { mailbox_->put(answer_, TokenChunk(event)); }
  void on_end(EndEvent event) noexcept override { mailbox_->end(answer_, std::move(event)); }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  size_t answer_;
};

}  // namespace llm_detail

/// Running answers. Text is made on the thread that reads, so that whatever a reader does, or that it stops reading,
/// is nothing to the engine. One reader at a time; the destructor cancels what still runs. It may outlive its Llm.
class LlmRun {
 public:
  struct Job {
    std::vector<int32_t> prompt;
    LlmParams params;
  };

  /// See Llm::start.
  LlmRun(std::shared_ptr<Session> session, std::vector<Job> jobs, std::function<void()> notify)
      : session_(std::move(session)),
        jobs_(std::move(jobs)),
        answers_(jobs_.size()),
        ids_(jobs_.size()),
        mailbox_(std::make_shared<llm_detail::Mailbox>(jobs_.size(), std::move(notify))) {
    texts_.reserve(jobs_.size());
    for (const Job& job : jobs_) {
      texts_.emplace_back(session_->tokenizer(), job.params.skip_special_tokens, job.params.stop);
    }
    try {
      submit_more();
    } catch (...) {
      cancel();  // those before the one that was refused
      throw;
    }
  }
  ~LlmRun() { cancel(); }
  LlmRun(const LlmRun&) = delete;
  LlmRun& operator=(const LlmRun&) = delete;

  /// What has come since the last call, waiting at most `timeout` for something. Empty: nothing yet, or done(). Throws
  /// Error if a later prompt of many turns out not to be acceptable.
  std::vector<LlmChunk> next(std::chrono::milliseconds timeout) {
    std::vector<LlmChunk> chunks;
    if (done()) return chunks;
    mailbox_->take(news_, timeout);
    for (auto& [index, chunk] : news_.chunks) take_tokens(index, chunk, chunks);
    for (auto& [index, event] : news_.ends) finish(index, event, chunks);
    news_.chunks.clear();
    news_.ends.clear();
    submit_more();
    return chunks;
  }

  bool done() const { return ended_ == jobs_.size(); }
  /// Ends all answers as soon as possible; their last chunks still come.
  void cancel() {
    cancelled_ = true;
    for (size_t i = 0; i < next_; ++i) {
      if (answers_[i].finish.empty()) session_->engine().cancel(ids_[i]);
    }
  }
  /// In the order of the prompts; those that are complete have a `finish`.
  const std::vector<LlmAnswer>& answers() const { return answers_; }

 private:
  static constexpr size_t kMaxOutstanding = 512;  // the rest waits here, where waiting costs nothing

  void submit_more() {
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

  Request request_of(size_t index) {
    Job& job = jobs_[index];
    Request request;
    request.prompt = std::move(job.prompt);
    request.sampling = job.params.sampling;
    request.max_tokens = job.params.max_tokens;
    request.width = job.params.width;
    request.choice = job.params.choice;
    request.stop_ids = job.params.stop_ids;
    if (!job.params.ignore_eos) {
      const std::vector<int32_t>& own = session_->stop_ids();
      request.stop_ids.insert(request.stop_ids.end(), own.begin(), own.end());
    }
    if (job.params.constraint) request.constraint = job.params.constraint();
    request.sink = std::make_shared<llm_detail::Sink>(mailbox_, index);
    return request;
  }

  void take_tokens(size_t index, TokenChunk& in, std::vector<LlmChunk>& out) {
    if (texts_[index].stopped()) return;
    OutputText::Delta delta = texts_[index].push(in.tokens);
    const size_t n = delta.consumed;
    in.tokens.resize(n);
    if (!in.logprobs.empty()) in.logprobs.resize(n);
    if (!in.unmask_pass.empty()) in.unmask_pass.resize(n);
    LlmAnswer& answer = answers_[index];
    append(answer.tokens, in.tokens);
    append(answer.logprobs, in.logprobs);
    append(answer.unmask_pass, in.unmask_pass);
    take_text(index, delta);
    if (delta.stopped) session_->engine().cancel(ids_[index]);
    LlmChunk chunk;
    chunk.index = index;
    chunk.text = std::move(delta.text);
    chunk.tokens = std::move(in.tokens);
    chunk.logprobs = std::move(in.logprobs);
    chunk.unmask_pass = std::move(in.unmask_pass);
    chunk.n_drafted = std::min(in.n_drafted, static_cast<int32_t>(n));
    out.push_back(std::move(chunk));
  }

  void finish(size_t index, EndEvent& end, std::vector<LlmChunk>& out) {
    OutputText::Delta rest = texts_[index].flush();
    take_text(index, rest);
    LlmAnswer& answer = answers_[index];
    answer.stats = std::move(end.stats);
    answer.error = std::move(end.error);
    answer.finish = texts_[index].stopped() ? name_of(FinishReason::kStop) : name_of(end.reason);
    ++ended_;
    LlmChunk chunk;
    chunk.index = index;
    chunk.text = std::move(rest.text);
    chunk.last = true;
    out.push_back(std::move(chunk));
  }

  void take_text(size_t index, const OutputText::Delta& delta) {
    answers_[index].text += delta.text;
    if (delta.stop_string) answers_[index].stop_string = jobs_[index].params.stop[*delta.stop_string];
  }

  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  std::shared_ptr<Session> session_;  // first: whatever is left of the others refers to it
  std::vector<Job> jobs_;
  std::vector<LlmAnswer> answers_;
  std::vector<RequestId> ids_;
  std::vector<OutputText> texts_;
  std::shared_ptr<llm_detail::Mailbox> mailbox_;
  llm_detail::Mailbox::News news_;
  size_t next_ = 0;  // first prompt not submitted
  size_t ended_ = 0;
  bool cancelled_ = false;
};

/// A loaded model and its engine. Thread-safe: calls from several threads share steps.
class Llm {
 public:
  /// Loads everything and starts the engine. Throws Error naming the file, option or folder that is wrong.
  explicit Llm(LlmOptions options) {
    options.engine.max_queue = 1 << 20;  // offline, no request is to be turned away
    session_ = std::make_shared<Session>(options);
    session_->start();
  }

  /// Called by generate, on its own thread, with every piece of an answer. If it throws, everything is cancelled and
  /// the exception passed on.
  using Listener = std::function<void(const LlmChunk&)>;

  /// Answers to all prompts, in their order. Throws Error if a prompt or the parameters are not acceptable; an answer
  /// that fails later has `finish` "error".
  std::vector<LlmAnswer> generate(const std::vector<LlmPrompt>& prompts, const LlmParams& params = {},
                                  const Listener& listener = {}) const {
    const std::unique_ptr<LlmRun> run = start(prompts, {params});
    while (!run->done()) {
      for (const LlmChunk& chunk : run->next(std::chrono::seconds(1))) {
        if (listener) listener(chunk);
      }
    }
    return run->answers();
  }

  /// Begins the answers and returns at once; LlmRun::next has what comes. `params`: one for all, or one a prompt.
  /// `notify` is called on the engine's thread whenever something came: it must not block, nor call the run.
  std::unique_ptr<LlmRun> start(const std::vector<LlmPrompt>& prompts, const std::vector<LlmParams>& params,
                                std::function<void()> notify = {}) const {
    if (params.size() != 1 && params.size() != prompts.size()) {
      throw Error("request", "there are " + std::to_string(prompts.size()) + " prompts and " +
                                 std::to_string(params.size()) + " parameters; expected one for all, or one a prompt");
    }
    std::vector<LlmRun::Job> jobs;
    for (size_t i = 0; i < prompts.size(); ++i) {
      jobs.push_back({encode(prompts[i]), params[params.size() == 1 ? 0 : i]});
    }
    return std::make_unique<LlmRun>(session_, std::move(jobs), std::move(notify));
  }

  /// Token ids of a prompt.
  std::vector<int32_t> encode(const LlmPrompt& prompt) const {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
    if (const auto* text = std::get_if<std::string>(&prompt)) return session_->encode_raw(*text);
    const LlmChat& chat = std::get<LlmChat>(prompt);
    return session_->encode_conversation({chat.messages, chat.tools, chat.variables});
  }
  std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens = true) const {
    const int32_t vocab = session_->engine().vocab();
    for (const int32_t id : ids) {
      if (id >= 0 && id < vocab) continue;
      throw Error("llm", "token id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab));
    }
    return session_->tokenizer().decode(ids, skip_special_tokens);
  }

  /// Model, tokenizer, engine and its counters.
  Session& session() const { return *session_; }

 private:
  std::shared_ptr<Session> session_;
};

}  // namespace ashlar
