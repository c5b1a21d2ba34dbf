// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the routes of the server call: admission, preparation of requests off the I/O threads, and their ends.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "server/http/connection/memory_budget.h"
#include "server/service/constraints.h"
#include "server/service/engine/serving_engine.h"
#include "server/service/hidden/hidden_files.h"
#include "server/service/job.h"
#include "server/service/prompt_encoder.h"
#include "server/service/worker_pool.h"

namespace ashlar::server {

/// A request that was refused before it began.
struct Refusal {
  const HttpRequest& request;
  int status;
  std::string param;  ///< the field at fault, if one is
};

struct ServiceOptions {
  std::string description;                              ///< of the engine, as ServingEngine::Facts has it
  int workers = 2;                                      ///< threads that read and prepare requests
  int32_t max_sequences = 16;                           ///< the engine's, for estimates
  int32_t max_waiting_requests = 256;                   ///< answers beyond those that run; more get a 429
  int64_t max_waiting_tokens = 1 << 20;                 ///< prompt tokens of all answers that have not ended
  std::chrono::milliseconds timeout{0};                 ///< of a request, from its arrival; 0: none
  StreamPatience patience = {};                         ///< of streams that wait
  bool isolate_keys = false;                            ///< clients with different API keys share no cached prompts
  bool keep_texts = false;                              ///< records carry prompts and answers
  bool keep_tokens = false;                             ///< records carry their tokens, unless a request says no
  HiddenFiles* hidden = nullptr;                        ///< outlives the service; null: no hidden states
  std::shared_ptr<MemoryBudget> memory;                 ///< the transport's; null: what requests take is not counted
  std::function<void(const RequestRecord&)> on_record;  ///< of every request that was begun; any thread
  std::function<void(const Refusal&)> on_refusal;       ///< of every other; any thread
  /// Called with each field that requests had and that has no effect, once, up to as many as a log can bear; any
  /// thread.
  std::function<void(const std::string&)> on_ignored_field;
};

class Service {
 public:
  /// `engine` outlives this, unless it is exchanged.
  Service(Engine& engine, ServedModel model, const ApiLimits& limits, ServiceOptions options);
  /// Cancels what runs and waits for it.
  ~Service();

  /// Takes a request for answers; on an I/O thread, returns at once.
  void answer(std::shared_ptr<Exchange> exchange, Api api);
  /// Runs something that takes a while and answers with what it returns; refusals in the shape of `api`.
  void work(std::shared_ptr<Exchange> exchange, Api api, std::function<Parsed<HttpResponse>()> task);
  /// Answers with a refusal, counts it and reports it.
  void refuse(const std::shared_ptr<Exchange>& exchange, Api api, const ApiError& error);

  /// New requests get a 503 from here on.
  void begin_drain() { draining_ = true; }
  bool draining() const { return draining_; }
  /// True when nothing is running, false at the deadline.
  bool wait_idle(std::chrono::steady_clock::time_point deadline);
  /// True when something is running or on its way to the engine, false at the deadline.
  bool wait_busy(std::chrono::steady_clock::time_point deadline);
  void cancel_all();

  /// Lets go of the engine, which may then be ended: requests that come wait for end_change(). False if something is
  /// running or on its way to the engine, or the server shuts down.
  bool begin_change();
  /// No engine can be made for now, and why: until end_change() problem() says so, and so do 503s to requests.
  void report_change(std::string why);
  void end_change(Engine& engine, std::string description) noexcept;
  /// Instead of end_change(): the device is lost, so there is no engine any more. Requests are refused, and
  /// engine().lost() says why.
  void lose_device(std::string why) noexcept;

  /// Empty if requests would be answered, if only later; otherwise why not.
  std::string problem() const;
  /// Empty if a request would be taken now; otherwise why it would be refused for now.
  std::string busy() const;

  const ServingEngine& engine() const { return engine_; }
  const ServedModel& model() const { return model_; }
  const ApiLimits& limits() const { return limits_; }
  const PromptEncoder& encoder() const { return encoder_; }
  ServiceMetrics& metrics() { return metrics_; }
  int64_t preparing() const { return static_cast<int64_t>(workers_.waiting()); }

 private:
  static constexpr size_t kMaxWaiting = 4096;  // requests that wait for a worker
  static constexpr const char* kManyWait = "too many requests wait to be read";
  static constexpr const char* kNoMemory = "the memory for large requests and answers is in use";

  std::shared_ptr<void> count_preparing();
  std::optional<ApiError> wait_for_engine(int64_t arrived_ns);
  bool post(const std::shared_ptr<Exchange>& exchange, std::function<void()> task);
  void refuse_busy(const std::shared_ptr<Exchange>& exchange, Api api, int status, const std::string& message);
  std::string tenant_of(const HttpRequest& request) const;
  uint64_t client_of(const HttpRequest& request) const;
  void prepare_safely(const std::shared_ptr<Exchange>& exchange, Api api, int64_t arrived_ns) noexcept;
  void prepare(const std::shared_ptr<Exchange>& exchange, Api api, int64_t arrived_ns);
  Parsed<Generation> parse(const HttpRequest& request, Api api) const;
  Parsed<std::vector<AnswerPlan>> plan(const Generation& generation, const Exchange& exchange,
                                       std::vector<std::string>& texts) const;
  std::optional<ApiError> check(const MethodChoice& choice) const;
  bool wants_hidden_states(const Generation& generation) const;
  uint64_t salt(const Generation& generation, const HttpRequest& request) const;
  std::optional<ApiError> admit(const std::shared_ptr<Job>& job, int32_t answers, int64_t tokens);
  void ended(const std::shared_ptr<Job>& job, int32_t answers, int64_t tokens, const RequestRecord& record);
  static ApiError shutting_down();
  ApiError busy_error(const std::string& message) const;
  std::string full(int32_t answers, int64_t tokens) const;
  void report_failure(const std::shared_ptr<Exchange>& exchange, Api api, const char* what) noexcept;
  void tick();
  void report_ignored(const std::string& field);

  ServingEngine engine_;
  const ServedModel model_;
  ApiLimits limits_;
  const ServiceOptions options_;
  const PromptEncoder encoder_;
  const std::shared_ptr<MaskWorkers> mask_workers_;
  const std::string salt_key_;  ///< random: salts mean nothing outside this process
  ServiceMetrics metrics_;
  std::atomic<bool> draining_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // what follows has
  std::set<std::shared_ptr<Job>> jobs_;
  std::set<std::string> ignored_fields_;  // those that on_ignored_field was called with
  int32_t answers_ = 0;                   // that run or wait
  int64_t prompt_tokens_ = 0;             // of these
  int64_t busy_since_ns_ = 0;             // when the first of them came
  int64_t preparing_ = 0;                 // requests between their arrival and admission
  bool changing_ = false;                 // there is no engine: these wait for it
  bool cancelling_ = false;               // and no longer
  std::string change_problem_;
  double mean_seconds_ = 1.0;  // of a request, slowly moving

  std::shared_ptr<Delivery> delivery_;
  WorkerPool workers_;  // last: its tasks use all of the above
};

}  // namespace ashlar::server
