// SPDX-License-Identifier: Apache-2.0
#include "server/service/service.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "server/api/parse/parse.h"

namespace ashlar::server {
namespace {

constexpr int64_t kStalled = 30'000'000'000;  // ns without progress while there is work

// What reading a body takes for a while: a value of JSON has 16 bytes, where its text may have two. Small ones do not
// count: there is one at a time for each worker.
size_t reading_takes(const HttpRequest& request) {
  constexpr size_t kCounts = size_t{1} << 20;
  return request.body.size() > kCounts ? 8 * request.body.size() : 0;
}

std::string random_key() {
  std::random_device random;
  std::string key(16, '\0');
  for (char& c : key) c = static_cast<char>(random());
  return key;
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

int64_t total_tokens(const std::vector<AnswerPlan>& plans) {
  int64_t sum = 0;
  for (const AnswerPlan& plan : plans) sum += static_cast<int64_t>(plan.request.prompt.size());
  return sum;
}

}  // namespace

Service::Service(Engine& engine, ServedModel model, const ApiLimits& limits, ServiceOptions options)
    : engine_(engine, options.description),
      model_(std::move(model)),
      limits_(limits),
      options_(std::move(options)),
      encoder_(model_),
      mask_workers_(std::make_shared<MaskWorkers>()),
      salt_key_(random_key()),
      delivery_(std::make_shared<Delivery>([this] { tick(); })),
      workers_(options_.workers, kMaxWaiting) {
  limits_.on_ignored = [this](const std::string& field) { report_ignored(field); };
  delivery_->start();
}

Service::~Service() {
  begin_drain();
  do {
    cancel_all();
  } while (!wait_idle(std::chrono::steady_clock::now() + std::chrono::milliseconds(100)));
  delivery_->stop();
}

ApiError Service::shutting_down() {
  return {503, "server_error", "the server is shutting down", "", "shutting_down", 10};
}

void Service::refuse(const std::shared_ptr<Exchange>& exchange, Api api, const ApiError& error) {
  metrics_.refused(error.status);
  try {
    if (options_.on_refusal) options_.on_refusal({exchange->request(), error.status, error.param});
  } catch (const std::exception&) {  // a line of a log is lost; the client still gets its answer
  }
  ApiError shown = error;
  shown.message = model_.without_folder(std::move(shown.message));
  exchange->respond(error_answer(api, shown));
}

// What broke a request, most likely for want of memory, may keep it from being reported, too: the exchange, once let
// go, answers the client.
void Service::report_failure(const std::shared_ptr<Exchange>& exchange, Api api, const char* what) noexcept {
  try {
    refuse(exchange, api, {500, "server_error", for_message(what), "", "", 0});
  } catch (const std::exception&) {
  }
}

// Counts a request until the last copy of what this returns is gone; where this throws, it is not counted.
std::shared_ptr<void> Service::count_preparing() {
  {
    const std::lock_guard lock(mutex_);
    ++preparing_;
    changed_.notify_all();
  }
  return std::shared_ptr<void>(this, [this](void*) {  // called as well if it cannot be made
    const std::lock_guard lock(mutex_);
    --preparing_;
    changed_.notify_all();
  });
}

void Service::answer(std::shared_ptr<Exchange> exchange, Api api) {
  if (draining_) return refuse(exchange, api, shutting_down());
  const auto task = [this, exchange, api, arrived = now_ns(), counted = count_preparing()] {
    prepare_safely(exchange, api, arrived);
  };
  if (!post(exchange, task)) refuse_busy(exchange, api, 429, kManyWait);
}

void Service::work(std::shared_ptr<Exchange> exchange, Api api, std::function<Parsed<HttpResponse>()> task) {
  const auto safely = [this, exchange, api, task = std::move(task)]() noexcept {
    try {
      MemoryShare reading(options_.memory.get());
      if (!reading.set(reading_takes(exchange->request()))) return refuse_busy(exchange, api, 503, kNoMemory);
      Parsed<HttpResponse> response = task();
      reading.set(0);
      if (!response) return refuse(exchange, api, response.error());
      exchange->respond(std::move(response.value()));
    } catch (const std::exception& error) {
      report_failure(exchange, api, message_of(error));
    }
  };
  if (!post(exchange, safely)) refuse_busy(exchange, api, 429, kManyWait);
}

Parsed<Generation> Service::parse(const HttpRequest& request, Api api) const {
  Parsed<Json> body = parse_body(request.body);
  if (!body) return body.error();
  return parse_request(api, body.value(), limits_);
}

std::string Service::tenant_of(const HttpRequest& request) const {
  if (!options_.isolate_keys) return {};
  return std::string(request.header("authorization")) + "\n" + std::string(request.header("x-api-key"));
}

// A request that breaks something ends with its own error.
void Service::prepare_safely(const std::shared_ptr<Exchange>& exchange, Api api, int64_t arrived_ns) noexcept {
  try {
    prepare(exchange, api, arrived_ns);
  } catch (const std::exception& error) {
    report_failure(exchange, api, message_of(error));
  }
}

void Service::prepare(const std::shared_ptr<Exchange>& exchange, Api api, int64_t arrived_ns) {
  if (const std::optional<ApiError> none = wait_for_engine(arrived_ns)) return refuse(exchange, api, *none);
  const HttpRequest& request = exchange->request();
  MemoryShare reading(options_.memory.get());
  if (!reading.set(reading_takes(request))) return refuse_busy(exchange, api, 503, kNoMemory);
  Parsed<Generation> generation = parse(request, api);
  if (!generation) return refuse(exchange, api, generation.error());
  FormatContext format;
  format.id = request.id;
  format.model = model_.name;
  format.created_s = unix_seconds();
  format.generation = std::move(generation.value());
  Parsed<std::vector<AnswerPlan>> plans = plan(format.generation, *exchange, format.prompt_texts);
  if (!plans) return refuse(exchange, api, plans.error());
  if (plans.value().empty()) {  // the model is loaded already
    exchange->respond({200, "application/json", make_format(api, std::move(format))->body({}, {}), {}});
    return;
  }

  std::shared_ptr<HiddenFile> hidden;
  if (const Request& first = plans.value().front().request; first.hidden_states) {
    Parsed<std::shared_ptr<HiddenFile>> room = options_.hidden->begin(first.prompt, format.generation.prompt_field);
    if (!room) return refuse(exchange, api, room.error());
    hidden = std::move(room.value());
  }
  const auto answers = static_cast<int32_t>(plans.value().size());
  const int64_t tokens = total_tokens(plans.value());
  // Knows the job without owning it; the set of jobs does that until the end.
  const auto handle = std::make_shared<std::weak_ptr<Job>>();
  const Job::Context context{
      &engine_.get(),
      &model_,
      delivery_.get(),
      &metrics_,
      options_.keep_texts,
      options_.keep_tokens,
      [this, handle, answers, tokens](const RequestRecord& record) { ended(handle->lock(), answers, tokens, record); },
      options_.patience,
      options_.hidden,
      std::move(hidden)};
  const auto job =
      std::make_shared<Job>(context, exchange, api, std::move(format), std::move(plans.value()), arrived_ns);
  *handle = job;
  if (const std::optional<ApiError> full = admit(job, answers, tokens)) return refuse(exchange, api, *full);
  job->start();
}

void Service::ended(const std::shared_ptr<Job>& job, int32_t answers, int64_t tokens, const RequestRecord& record) {
  try {
    if (options_.on_record) options_.on_record(record);
  } catch (const std::exception&) {  // a line of a log is lost; what follows must not be
  }
  const std::lock_guard lock(mutex_);
  jobs_.erase(job);
  answers_ -= answers;
  prompt_tokens_ -= tokens;
  mean_seconds_ += 0.05 * (record.total_s - mean_seconds_);
  changed_.notify_all();
}

bool Service::wait_idle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return jobs_.empty() && preparing_ == 0; });
}

bool Service::wait_busy(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return !jobs_.empty() || preparing_ > 0; });
}

void Service::cancel_all() {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.assign(jobs_.begin(), jobs_.end());
    cancelling_ = true;
    changed_.notify_all();
  }
  for (const auto& job : jobs) job->shut_down();
}

void Service::report_ignored(const std::string& field) {
  constexpr size_t kMaxFields = 64;
  {
    const std::lock_guard lock(mutex_);
    if (ignored_fields_.size() >= kMaxFields || !ignored_fields_.insert(field).second) return;
  }
  if (options_.on_ignored_field) options_.on_ignored_field(field);
}

void Service::tick() {
  const int64_t now = now_ns();
  const int64_t timeout = std::chrono::nanoseconds(options_.timeout).count();
  std::vector<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.assign(jobs_.begin(), jobs_.end());
  }
  for (const auto& job : jobs) {
    try {
      job->on_tick(now);
    } catch (const std::exception& error) {
      job->on_failure(message_of(error));
    }
    if (timeout > 0 && now - job->arrived_ns() > timeout) job->time_out();
  }
  // Freed memory would stay with the process. On a worker's thread: it may take long.
  const bool trim = options_.memory && options_.memory->take_trim_due();
  if (trim) workers_.post({.run = [] { malloc_trim(0); }, .kind = "trim"});
}

std::string Service::problem() const {
  if (std::string lost = engine_.lost(); !lost.empty()) return lost;
  if (draining_) return "shutting down";
  int64_t busy_since = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!change_problem_.empty()) return change_problem_;
    if (jobs_.empty()) return "";
    busy_since = busy_since_ns_;
  }
  const EngineCounters counters = engine_.counters();
  if (counters.waits_for_masks) return "";
  const int64_t age = now_ns() - std::max(busy_since, counters.last_progress_ns);
  return age > kStalled ? "the engine has made no progress for " + std::to_string(age / 1'000'000'000) + " s" : "";
}

}  // namespace ashlar::server
