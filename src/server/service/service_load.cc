// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "server/service/service.h"

// Which requests are taken now, which wait and which are to come again.

namespace ashlar::server {

ApiError Service::busy_error(const std::string& message) const {
  const double wait = mean_seconds_ * answers_ / std::max(1, options_.max_sequences);
  return {429, "rate_limit_error", message, "", "server_overloaded", static_cast<int>(std::clamp(wait, 1.0, 60.0))};
}

// Who shares the workers' time with others: a key, if clients have several, else an address.
uint64_t Service::client_of(const HttpRequest& request) const {
  std::string name = tenant_of(request);
  if (name.empty()) name = request.peer.substr(0, request.peer.rfind(':'));
  return std::hash<std::string>()(name);
}

bool Service::post(const std::shared_ptr<Exchange>& exchange, std::function<void()> task) {
  const HttpRequest& request = exchange->request();
  return workers_.post({.run = std::move(task),
                        .wanted = [exchange] { return !exchange->gone(); },
                        .client = client_of(request),
                        .kind = request.path,
                        .bytes = request.body.size()});
}

void Service::refuse_busy(const std::shared_ptr<Exchange>& exchange, Api api, int status, const std::string& message) {
  ApiError error;
  {
    const std::lock_guard lock(mutex_);
    error = busy_error(message + "; try again later");
  }
  error.status = status;
  if (status == 503) error.type = "server_error";
  refuse(exchange, api, error);
}

// Why a request for this much would not be admitted, or empty. Under the lock.
std::string Service::full(int32_t answers, int64_t tokens) const {
  if (answers_ == 0) return {};  // then even a huge request runs
  if (answers_ + answers > options_.max_sequences + options_.max_waiting_requests) {
    return "the queue is full: " + std::to_string(answers_) + " answers are running or waiting";
  }
  if (prompt_tokens_ + tokens > options_.max_waiting_tokens) {
    return "the queue is full: prompts of " + std::to_string(prompt_tokens_) + " tokens are running or waiting";
  }
  return {};
}

std::string Service::busy() const {
  if (options_.memory && options_.memory->full()) return kNoMemory;
  if (workers_.waiting() >= kMaxWaiting) return kManyWait;
  const std::lock_guard lock(mutex_);
  return full(1, 1);
}

std::optional<ApiError> Service::admit(const std::shared_ptr<Job>& job, int32_t answers, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  const std::string why = full(answers, tokens);
  if (!why.empty()) return busy_error(why + "; try again later");
  if (jobs_.empty()) busy_since_ns_ = now_ns();
  jobs_.insert(job);
  answers_ += answers;
  prompt_tokens_ += tokens;
  return std::nullopt;
}

// Who is counted as preparing and has passed here keeps the engine from being exchanged. Else why there is none.
std::optional<ApiError> Service::wait_for_engine(int64_t arrived_ns) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return !changing_ || cancelling_ || !change_problem_.empty(); };
  if (options_.timeout.count() > 0) {
    const std::chrono::steady_clock::time_point arrived{std::chrono::nanoseconds(arrived_ns)};
    changed_.wait_until(lock, arrived + options_.timeout, over);
  } else {
    changed_.wait(lock, over);
  }
  if (std::string lost = engine_.lost(); !lost.empty()) {
    return ApiError{503, "server_error", std::move(lost), "", "device_lost", 10};
  }
  if (!changing_) return std::nullopt;
  if (cancelling_) return shutting_down();
  if (!change_problem_.empty()) return ApiError{503, "server_error", change_problem_, "", "no_engine", 10};
  return took_too_long();
}

bool Service::begin_change() {
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || changing_ || !jobs_.empty() || preparing_ > 0) return false;
    changing_ = true;
  }
  engine_.close();
  return true;
}

void Service::report_change(std::string why) {
  const std::lock_guard lock(mutex_);
  change_problem_ = std::move(why);
  changed_.notify_all();
}

void Service::end_change(Engine& engine, std::string description) noexcept {
  const std::lock_guard lock(mutex_);
  engine_.open(engine, std::move(description));
  changing_ = false;
  change_problem_.clear();
  changed_.notify_all();
}

// The change goes on for good, so that no other one begins.
void Service::lose_device(std::string why) noexcept {
  const std::lock_guard lock(mutex_);
  change_problem_ = copy_or_less(why);
  engine_.lose(std::move(why));
  changed_.notify_all();
}

}  // namespace ashlar::server
