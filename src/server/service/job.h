// SPDX-License-Identifier: Apache-2.0
#pragma once
// One client request on its way: its answers, what the client has been sent, and how it ends.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/api/format/formats.h"
#include "server/http/connection/exchange.h"
#include "server/service/answer_text.h"
#include "server/service/delivery.h"
#include "server/service/hidden/hidden_files.h"
#include "server/service/metrics.h"
#include "server/service/prompt_tokens.h"

namespace ashlar::server {

/// The tokens of an answer and of what it answers.
struct AnsweredTokens {
  std::vector<int32_t> prompt, answer;  ///< the answer's stop token is part of it
};

/// What remains of a request that has ended: for logs.
struct RequestRecord {
  std::string id, api, model, peer, finish, error;
  std::string user;  ///< as the client named it
  int status = 200;
  bool stream = false;
  int32_t answers = 0;
  Usage usage;
  int32_t drafted = 0, accepted = 0, verify_steps = 0;
  double queue_s = 0, first_token_s = 0, total_s = 0;  ///< of the first answer; of the request
  std::vector<std::string> prompts, texts;             ///< filled only if they are wanted
  /// The same, of answers that were not cut off from outside; null: there are none. Shared by copies, as it may be
  /// large.
  std::shared_ptr<const std::vector<AnsweredTokens>> tokens;
};

/// When a stream that has nothing to send sends something all the same.
struct StreamPatience {
  std::chrono::milliseconds begin{2'500};  ///< from the request's arrival: until then an error has a status of its own
  std::chrono::milliseconds between{5'000};  ///< between signs of life
};

/// One answer to produce.
struct AnswerPlan {
  Request request;  ///< without sink
  int32_t prompt = 0;
  bool starts_in_reasoning = false;
};

class Job final : public EventReceiver, public std::enable_shared_from_this<Job> {
 public:
  struct Context {
    Engine* engine;
    const ServedModel* model;
    Delivery* delivery;
    ServiceMetrics* metrics;
    bool keep_texts, keep_tokens;
    std::function<void(const RequestRecord&)> on_end;  ///< last of all; on the delivery's thread, or within start()
    StreamPatience patience = {};
    HiddenFiles* hidden_files = nullptr;
    std::shared_ptr<HiddenFile> hidden = nullptr;  ///< of the request's only prompt; null: it is not wanted
  };

  Job(const Context& context, std::shared_ptr<Exchange> exchange, Api api, FormatContext format,
      std::vector<AnswerPlan> plans, int64_t arrived_ns);

  /// Submits the answers. On a worker's thread, once. What fails here ends the request too, with on_end.
  void start();
  /// On the delivery's thread, now and then: a stream that has been silent for long sends a sign of life.
  void on_tick(int64_t now_ns);
  /// Ends every answer as soon as possible; thread-safe.
  void cancel();
  /// Cancels because it took too long.
  void time_out();
  /// Cancels because the server ends.
  void shut_down();
  int64_t arrived_ns() const { return arrived_ns_; }

  void on_prompt(int32_t answer, const PromptChunk& chunk) override;
  void on_tokens(int32_t answer, const TokenChunk& chunk) override;
  void on_end(int32_t answer, const EndEvent& end) override;
  void on_pause() override;
  void on_failure(const std::string& what) override;

 private:
  struct State {
    AnswerText text;
    FinishedAnswer finished;
    PromptTokens prompt;
    AnsweredTokens kept;  // if they are wanted; the engine may have made more
    bool prompt_reported = false;
    RequestId id = 0;
    bool stopping = false;
    int64_t last_ns = 0;  // of the newest token
  };
  void submit(size_t index, const std::shared_ptr<EventSink>& sink) noexcept;
  void report_prompt(State& state);
  void take(State& state, const TokenChunk& chunk);
  void emit(State& state, const std::vector<AnswerDelta>& deltas);
  void stop_answer(State& state);
  AnswerEnd describe(const State& state, const EndEvent& end) const;
  void conclude(int32_t answer, const EndEvent& end);
  void set_broken(const char* what) noexcept;
  std::optional<ApiError> problem();
  void finish();
  void begin_stream();
  void respond(const std::optional<ApiError>& error);
  void flush();
  AnswerEnd::Reason end_of_all(bool failed) const;
  bool keeps_tokens() const { return context_.keep_tokens && generation_.store; }
  bool wants_tokens() const { return keeps_tokens() || generation_.return_token_ids; }
  FinishedAnswer finished(State& state) const;
  RequestRecord record(const std::optional<ApiError>& error) const;
  std::vector<AnsweredTokens> kept_tokens() const;

  const Context context_;
  const std::shared_ptr<Exchange> exchange_;
  const Api api_;
  const Generation generation_;
  const FormatContext described_;
  // The worker's until the first submit, then the delivery's:
  std::unique_ptr<Format> format_;
  std::string outbox_;  // bytes of a stream for the next write: each costs both ends a system call and a wake-up
  const int64_t arrived_ns_;
  std::vector<AnswerPlan> plans_;
  std::atomic<bool> submitting_{false};  // from here on the above is the delivery's
  bool begun_ = false;                   // the stream
  int64_t last_sent_ns_;                 // of the stream; the request's arrival before

  std::mutex mutex_;  // guards ids of states and what follows
  bool cancelled_ = false;
  bool timed_out_ = false;
  bool shut_down_ = false;

  std::vector<State> states_;
  Usage usage_;
  RequestStats total_;
  int32_t ended_ = 0;
  bool broken_ = false;  // something threw: the client gets an error in the place of what is left
  std::string failure_;  // what
  int64_t queue_ns_ = 0, first_token_ns_ = 0;
};

const char* name_of(AnswerEnd::Reason reason);
HttpResponse error_answer(Api api, const ApiError& error);
/// What a request ends with that takes longer than ServiceOptions::timeout.
ApiError took_too_long();

}  // namespace ashlar::server
