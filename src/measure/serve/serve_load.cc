// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/serve_load.h"

#include <curl/curl.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace ashlar {
namespace {

constexpr size_t kMaxInFlight = 4096;  // beyond it an open loop counts requests as not sent
constexpr long kConnectMs = 10'000;
constexpr size_t kMaxModelListBytes = size_t{4} << 20;

struct GlobalCurl {
  GlobalCurl() { curl_global_init(CURL_GLOBAL_DEFAULT); }
};

std::string kind_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      return "connection refused";
    case CURLE_COULDNT_RESOLVE_HOST:
      return "unknown host";
    case CURLE_OPERATION_TIMEDOUT:
      return "timeout";
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
      return "connection lost";
    default:
      return curl_easy_strerror(code);
  }
}

// One request on its way.
struct Flight {
  explicit Flight(int64_t start_ns) : recorder(start_ns) {}
  ~Flight() {
    if (curl != nullptr) curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  CURL* curl = curl_easy_init();
  curl_slist* headers = nullptr;
  StreamRecorder recorder;
  char error[CURL_ERROR_SIZE] = {};

  long status() const {
    long value = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &value);
    return value;
  }
  static size_t on_body(char* data, size_t, size_t size, void* self) {
    auto& flight = *static_cast<Flight*>(self);
    flight.recorder.bytes(flight.status(), {data, size}, now_ns());
    return size;
  }
};

size_t append_bounded(char* data, size_t, size_t size, void* text) {
  auto& body = *static_cast<std::string*>(text);
  if (body.size() + size > kMaxModelListBytes) return 0;
  body.append(data, size);
  return size;
}

// http://host:8080/v1/ and http://host:8080 mean the same.
std::string trimmed_url(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  return url;
}

}  // namespace

std::string load_request_body(const ServeLoadOptions& options, const EvalPrompt& prompt) {
  Json body = {{"model", options.model},
               {"max_tokens", options.max_tokens},
               {"temperature", options.temperature},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (options.api == LoadApi::kChat) {
    if (!prompt.ids.empty()) throw Error("bench", prompt.name + ": has token ids; --api completions can send those");
    body["messages"] = prompt.messages;
  } else if (!prompt.ids.empty()) {
    body["prompt"] = prompt.ids;
  } else {
    const Json& content = prompt.messages.back()["content"];
    if (!content.is_string()) throw Error("bench", prompt.name + ": content is no string; --api chat can send it");
    body["prompt"] = content;
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct ServeLoad::State {
  ServeLoadOptions options;
  std::vector<std::string> bodies;
  CURLM* multi = nullptr;
  std::vector<std::unique_ptr<Flight>> flights;

  ~State() {
    for (const auto& flight : flights) curl_multi_remove_handle(multi, flight->curl);
    flights.clear();
    if (multi != nullptr) curl_multi_cleanup(multi);
  }

  void prepare(Flight& flight, const std::string& path) const;
  std::string first_model() const;
  void launch(size_t prompt, int64_t start_ns);
  void collect(std::vector<RequestRecord>& records);
};

// What all requests share; the flight's headers are complete afterwards.
void ServeLoad::State::prepare(Flight& flight, const std::string& path) const {
  CURL* curl = flight.curl;
  if (curl == nullptr) throw Error("bench", "the HTTP client cannot be set up: out of memory");
  curl_easy_setopt(curl, CURLOPT_URL, (options.url + path).c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, flight.error);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout_s * 1e3));
  curl_easy_setopt(curl, CURLOPT_PRIVATE, &flight);
  for (const char* header :
       {"Content-Type: application/json", "Accept: text/event-stream, application/json", "Expect:"}) {
    flight.headers = curl_slist_append(flight.headers, header);
  }
  if (!options.api_key.empty()) {
    flight.headers = curl_slist_append(flight.headers, ("Authorization: Bearer " + options.api_key).c_str());
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, flight.headers);
}

std::string ServeLoad::State::first_model() const {
  Flight flight(0);
  prepare(flight, "/v1/models");
  std::string body;
  curl_easy_setopt(flight.curl, CURLOPT_WRITEFUNCTION, append_bounded);
  curl_easy_setopt(flight.curl, CURLOPT_WRITEDATA, &body);
  const CURLcode code = curl_easy_perform(flight.curl);
  if (code != CURLE_OK) {
    throw Error("bench", options.url +
                             " cannot be reached: " + (flight.error[0] != '\0' ? flight.error : kind_of(code)) +
                             "; is the server running, and is --url right?");
  }
  if (flight.status() != 200) {
    throw Error("bench", options.url + "/v1/models answers " + std::to_string(flight.status()) +
                             "; name the model with --model, or check --url and --api-key");
  }
  const Json list = parse_json(body, options.url + "/v1/models");
  if (list.is_object() && list.contains("data") && list["data"].is_array()) {
    for (const Json& model : list["data"]) {
      if (model.is_object() && model.contains("id") && model["id"].is_string()) return model["id"].get<std::string>();
    }
  }
  throw Error("bench", options.url + "/v1/models lists no model; name one with --model");
}

void ServeLoad::State::launch(size_t prompt, int64_t start_ns) {
  Flight& flight = *flights.emplace_back(std::make_unique<Flight>(start_ns));
  prepare(flight, options.api == LoadApi::kChat ? "/v1/chat/completions" : "/v1/completions");
  const std::string& body = bodies[prompt % bodies.size()];
  curl_easy_setopt(flight.curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(flight.curl, CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(flight.curl, CURLOPT_WRITEFUNCTION, &Flight::on_body);
  curl_easy_setopt(flight.curl, CURLOPT_WRITEDATA, &flight);
  curl_multi_add_handle(multi, flight.curl);
}

void ServeLoad::State::collect(std::vector<RequestRecord>& records) {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    CURL* curl = message->easy_handle;
    const auto at = std::find_if(flights.begin(), flights.end(), [curl](const auto& one) { return one->curl == curl; });
    Flight& flight = **at;
    records.push_back(
        flight.recorder.finish(flight.status(), code == CURLE_OK ? "" : kind_of(code), flight.error, now_ns()));
    curl_multi_remove_handle(multi, curl);
    flights.erase(at);
  }
}

ServeLoad::ServeLoad(ServeLoadOptions options, const std::vector<EvalPrompt>& prompts)
    : state_(std::make_unique<State>()) {
  static const GlobalCurl kGlobal;
  state_->options = std::move(options);
  state_->options.url = trimmed_url(state_->options.url);
  state_->multi = curl_multi_init();
  if (state_->multi == nullptr) throw Error("bench", "the HTTP client cannot be set up: out of memory");
  if (prompts.empty()) throw Error("bench", "there are no prompts; expected at least one");
  if (state_->options.model.empty()) state_->options.model = state_->first_model();
  for (const EvalPrompt& prompt : prompts) state_->bodies.push_back(load_request_body(state_->options, prompt));
}

ServeLoad::~ServeLoad() = default;

const ServeLoadOptions& ServeLoad::options() const { return state_->options; }

void ServeLoad::warm_up() {
  const ServeLoadOptions kept = state_->options;
  state_->options.requests = 1;
  state_->options.duration_s = 0;
  const LevelRun one = run({1, 0});
  state_->options = kept;
  const RequestRecord& record = one.records.front();
  if (!record.ok()) {
    throw Error("bench", "the first request to " + kept.url + " failed, nothing was measured: " + record.error +
                             (record.detail.empty() ? "" : " (" + record.detail + ")"));
  }
}

namespace {

RequestRecord not_sent(int64_t start_ns) {
  RequestRecord record;
  record.start_ns = record.end_ns = start_ns;
  record.error = "not sent";
  record.detail = "more than " + std::to_string(kMaxInFlight) + " requests wait for answers";
  return record;
}

}  // namespace

LevelRun ServeLoad::run(const LoadLevel& level, const Progress& progress) {
  State& state = *state_;
  const ServeLoadOptions& options = state.options;
  LevelRun result;
  result.level = level;
  // Idle connections of all requests at a time are kept, so that a level measures answers and not handshakes.
  curl_multi_setopt(state.multi, CURLMOPT_MAXCONNECTS, static_cast<long>(std::max(level.concurrency, 64)));
  LoadSchedule schedule(level, options.requests, options.duration_s, options.seed, now_ns());
  while (true) {
    for (int64_t now = now_ns(); schedule.due(now, state.flights.size()); now = now_ns()) {
      const auto [number, start_ns] = schedule.take(now);
      if (state.flights.size() < kMaxInFlight) {
        state.launch(number, start_ns);
      } else {
        result.records.push_back(not_sent(start_ns));
      }
    }
    int running = 0;
    curl_multi_perform(state.multi, &running);
    state.collect(result.records);
    const int64_t now = now_ns();
    if (progress && options.requests > 0) progress(static_cast<int64_t>(result.records.size()), options.requests);
    if (progress && options.requests == 0) {
      progress(static_cast<int64_t>(schedule.seconds(now) * 10), static_cast<int64_t>(options.duration_s * 10));
    }
    if (state.flights.empty() && !schedule.may_send(now)) break;
    if (!schedule.due(now, state.flights.size()))
      curl_multi_poll(state.multi, nullptr, 0, schedule.wait_ms(now), nullptr);
  }
  result.seconds = schedule.seconds(now_ns());
  return result;
}

}  // namespace ashlar
