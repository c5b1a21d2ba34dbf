// SPDX-License-Identifier: Apache-2.0
#include "server/service/service.h"

#include <malloc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "server/api/parse/parse.h"
#include "text/tokenizer/model_tokens.h"

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

uint64_t random_seed() {
  thread_local std::mt19937_64 random{(uint64_t{std::random_device{}()} << 32) ^ std::random_device{}()};
  return random();
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Stop strings that are special tokens: the text has them too late, since the engine would go on until it is cancelled.
std::vector<int32_t> special_stops(const Tokenizer& tokenizer, const std::vector<std::string>& stops) {
  std::vector<int32_t> ids;
  for (const std::string& stop : stops) {
    const std::optional<int32_t> id = tokenizer.token_id(stop);
    if (id && tokenizer.is_special(*id)) ids.push_back(*id);
  }
  return ids;
}

int64_t total_tokens(const std::vector<AnswerPlan>& plans) {
  int64_t sum = 0;
  for (const AnswerPlan& plan : plans) sum += static_cast<int64_t>(plan.request.prompt.size());
  return sum;
}

}  // namespace

Service::Service(Engine& engine, ServedModel model, const ApiLimits& limits, ServiceOptions options)
    : engine_(engine),
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
  }
  return std::shared_ptr<void>(this, [this](void*) {  // called as well if it cannot be made
    const std::lock_guard lock(mutex_);
    --preparing_;
    idle_.notify_all();
  });
}

void Service::answer(std::shared_ptr<Exchange> exchange, Api api) {
  if (draining_) {
    return refuse(exchange, api, {503, "server_error", "the server is shutting down", "", "shutting_down", 10});
  }
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

// Prompts that share cached pages show by their speed what others have asked; different salts never share.
uint64_t Service::salt(const Generation& generation, const HttpRequest& request) const {
  const std::string tenant = tenant_of(request);
  if (tenant.empty() && generation.cache_salt.empty()) return 0;
  const std::string text = salt_key_ + std::to_string(tenant.size()) + ":" + tenant + generation.cache_salt;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  ASHLAR_CHECK(EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) == 1);
  uint64_t out = 0;
  std::memcpy(&out, digest, sizeof out);
  return out == 0 ? 1 : out;
}

// Asked part by part, the engine says which one is at fault.
std::optional<ApiError> Service::check(const MethodChoice& choice) const {
  std::string message = engine_.check(choice);
  if (message.empty()) return std::nullopt;
  std::string field = "dllm";
  if (engine_.block_size() > 0 && !engine_.check({choice.algorithm, {}}).empty()) {
    field += ".algorithm";
  } else if (engine_.block_size() > 0) {
    for (const auto& [key, value] : choice.values) {
      const std::string wrong = engine_.check({choice.algorithm, {{key, value}}});
      if (wrong.empty()) continue;
      message = wrong;
      field += "." + for_message(key);
      break;
    }
  }
  return ApiError{400, "invalid_request_error", field + ": " + message, field, "", 0};
}

Parsed<std::vector<AnswerPlan>> Service::plan(const Generation& generation, const Exchange& exchange,
                                              std::vector<std::string>& texts) const {
  if (!model_.answers_to(generation.model)) return model_.not_served(generation.model);
  if (const std::optional<ApiError> wrong = check(generation.choice)) return *wrong;
  if (generation.wants_prompt_logprobs() && !engine_.scores_prompts()) {
    const std::string& field = generation.prompt_logprobs_param;
    return ApiError{400,
                    "invalid_request_error",
                    field +
                        ": this model has no log-probabilities of a prompt: what it computes for a token also sees "
                        "tokens after it; ask for those of the answer alone",
                    field,
                    "",
                    0};
  }
  const Parsed<ConstraintMaker> constraints =
      ConstraintMaker::compile(model_, generation, mask_workers_, [&exchange] { return exchange.gone(); });
  if (!constraints) return constraints.error();
  std::vector<AnswerPlan> plans;
  for (size_t p = 0; p < generation.prompts.size(); ++p) {
    const std::string& field = generation.prompt_field;
    Parsed<EncodedPrompt> encoded =
        encoder_.encode(generation.prompts[p], {.field = field, .add_special_tokens = generation.add_special_tokens});
    if (!encoded) return encoded.error();
    EncodedPrompt& prompt = encoded.value();
    const auto size = static_cast<int64_t>(prompt.ids.size());
    if (size == 0) {
      return ApiError{
          400, "invalid_request_error", field + ": the prompt is empty; expected at least one token", field, "", 0};
    }
    const int64_t most = model_.max_positions - (generation.prompt_only() ? 0 : 1);
    if (size > most) {
      return ApiError{400,
                      "invalid_request_error",
                      "the prompt has " + std::to_string(size) + " tokens; the context holds " +
                          std::to_string(model_.max_positions) +
                          (generation.prompt_only() ? ": " : ", one of them for the answer: ") +
                          std::to_string(size - most) + " too many",
                      field,
                      "context_length_exceeded",
                      0};
    }
    if (const auto problem = token_beyond(*model_.tokenizer, prompt.ids, engine_.vocab())) {
      return ApiError{400, "invalid_request_error", *problem, field, "", 0};
    }
    // Noise that prompts of one request shared would make equal ones equal answers.
    const uint64_t seed = generation.seed ? *generation.seed : random_seed();
    AnswerPlan plan;
    plan.prompt = static_cast<int32_t>(p);
    plan.starts_in_reasoning = prompt.starts_in_reasoning;
    plan.request.sampling = generation.sampling;
    plan.request.max_tokens = generation.max_tokens.value_or(0);
    plan.request.prompt_only = generation.prompt_only();
    plan.request.prompt_logprobs = generation.prompt_logprobs;
    plan.request.stop_ids = generation.stop_ids;
    for (const int32_t id : special_stops(*model_.tokenizer, generation.stop)) plan.request.stop_ids.push_back(id);
    if (!generation.ignore_eos) {
      plan.request.stop_ids.insert(plan.request.stop_ids.end(), model_.stop_ids.begin(), model_.stop_ids.end());
    }
    plan.request.width = generation.width;
    plan.request.choice = generation.choice;
    plan.request.salt = salt(generation, exchange.request());
    plan.request.prompt = std::move(prompt.ids);
    for (int32_t i = 0; i < generation.n; ++i) {
      plans.push_back(plan);
      plans.back().request.sampling.seed = choice_seed(seed, i);
      plans.back().request.constraint =
          constraints.value().make(plan.starts_in_reasoning, prompt.may_reason && generation.split_reasoning);
    }
    texts.push_back(std::move(prompt.text));
  }
  return plans;
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

  const auto answers = static_cast<int32_t>(plans.value().size());
  const int64_t tokens = total_tokens(plans.value());
  // Knows the job without owning it; the set of jobs does that until the end.
  const auto handle = std::make_shared<std::weak_ptr<Job>>();
  const Job::Context context{
      &engine_,
      &model_,
      delivery_.get(),
      &metrics_,
      options_.keep_texts,
      options_.keep_tokens,
      [this, handle, answers, tokens](const RequestRecord& record) { ended(handle->lock(), answers, tokens, record); },
      options_.patience};
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
  idle_.notify_all();
}

bool Service::wait_idle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline, [this] { return jobs_.empty() && preparing_ == 0; });
}

void Service::cancel_all() {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.assign(jobs_.begin(), jobs_.end());
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
  if (draining_) return "shutting down";
  int64_t busy_since = 0;
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.empty()) return "";
    busy_since = busy_since_ns_;
  }
  const EngineCounters counters = engine_.counters();
  if (counters.waits_for_masks) return "";
  const int64_t age = now_ns() - std::max(busy_since, counters.last_progress_ns);
  return age > kStalled ? "the engine has made no progress for " + std::to_string(age / 1'000'000'000) + " s" : "";
}

}  // namespace ashlar::server
