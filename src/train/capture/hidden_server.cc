// SPDX-License-Identifier: Apache-2.0
#include "train/capture/hidden_server.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr size_t kMaxAnswer = size_t{64} << 20;  // the ids of a long prompt come back
constexpr long kConnectMs = 10'000;
constexpr std::chrono::minutes kClocksApart{1};  // of this machine and of a file system's server
constexpr milliseconds kLongestPause{30'000}, kLongestLock{60'000}, kLockPoll{20};

size_t append(const char* bytes, size_t /*one*/, size_t n, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + n > kMaxAnswer) return 0;
  text.append(bytes, n);
  return n;
}

const Json* member(const Json* json, const char* key) {
  if (json == nullptr || !json->is_object()) return nullptr;
  const auto at = json->find(key);
  return at == json->end() ? nullptr : &*at;
}

// Null where it is no JSON.
Json parsed(const std::string& body) {
  try {
    return parse_json(body, "its answer");
  } catch (const Error&) {
    return {};
  }
}

const Json* first(const Json* list) {
  return list != nullptr && list->is_array() && !list->empty() ? &list->front() : nullptr;
}

std::string text_of(const Json* json) {
  return json != nullptr && json->is_string() ? json->get<std::string>() : std::string();
}

// {"error": {"message": ...}}, {"message": ...}, or whatever else stands there.
std::string words_of(long status, const std::string& body) {
  const Json json = parsed(body);
  const Json* error = member(&json, "error");
  std::string words = text_of(member(error != nullptr ? error : &json, "message"));
  if (words.empty()) words = body;
  return "it answers " + std::to_string(status) + ": " + for_message(words, 400);
}

// As vLLM's connector promises: who holds the lock is writing. False: there is none.
bool wait_for_lock(const fs::path& path) {
  const fs::path lock = path.string() + ".lock";
  const int fd = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  milliseconds waited{0};
  bool free = false;
  for (; !free && waited < kLongestLock; waited += kLockPoll) {
    free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!free) std::this_thread::sleep_for(kLockPoll);
  }
  ::close(fd);
  if (!free) throw HiddenServerError(lock.string() + ": is locked for longer than a minute; the server writes no end");
  return true;
}

}  // namespace

struct HiddenServer::Reply {
  long status = 0;
  std::string body;
  std::string problem;   // why there is none
  milliseconds wait{0};  // that the server asks for before another attempt

  bool ok() const { return problem.empty() && status == 200; }
  std::string words() const { return problem.empty() ? words_of(status, body) : problem; }
  bool may_pass() const {
    return !problem.empty() || status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
  }
};

// One request after another over one connection.
class HiddenServer::Client {
 public:
  explicit Client(const HiddenServerOptions& options) : curl_(curl_easy_init()) {
    if (curl_ == nullptr) throw Error("train", "the HTTP client cannot be set up: out of memory");
    for (const char* header : {"Content-Type: application/json", "Accept: application/json", "Expect:"}) {
      headers_ = curl_slist_append(headers_, header);
    }
    if (!options.api_key.empty()) {
      headers_ = curl_slist_append(headers_, ("Authorization: Bearer " + options.api_key).c_str());
    }
    curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    // A proxy of the environment is for other machines: it would get the key and the ids of what is asked of this one.
    curl_easy_setopt(curl_, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout.count()));
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, error_);
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers_);
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, append);
  }
  ~Client() {
    curl_easy_cleanup(curl_);
    curl_slist_free_all(headers_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Without a body a GET.
  Reply send(const std::string& url, const std::string& body) {
    Reply reply;
    error_[0] = '\0';
    curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &reply.body);
    if (!body.empty()) {
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, body.c_str());
    }
    const CURLcode code = curl_easy_perform(curl_);
    if (code != CURLE_OK) reply.problem = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &reply.status);
    curl_off_t seconds = 0;
    curl_easy_getinfo(curl_, CURLINFO_RETRY_AFTER, &seconds);
    reply.wait = std::min<milliseconds>(kLongestPause, std::chrono::seconds(std::clamp<curl_off_t>(seconds, 0, 3600)));
    return reply;
  }

 private:
  CURL* curl_;
  curl_slist* headers_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};
};

struct HiddenServer::State {
  explicit State(HiddenServerOptions given) : options(std::move(given)) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (ready != CURLE_OK) throw Error("train", "the HTTP client cannot be set up");
    std::string& url = options.url;
    while (url.ends_with('/')) url.pop_back();
    if (url.ends_with("/v1")) url.resize(url.size() - 3);
    for (int32_t i = 0; i < options.at_once; ++i) clients.push_back(std::make_unique<Client>(options));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw HiddenServerError("hidden states of " + options.url + ": " + what);
  }

  // The first answer that will stay what it is.
  Reply send(Client& client, const std::string& path, const std::string& body) const {
    milliseconds pause = options.pause;
    for (int32_t attempt = 1;; ++attempt, pause *= 2) {
      Reply reply = client.send(options.url + path, body);
      if (!reply.may_pass() || attempt >= options.attempts || stopped) return reply;
      std::this_thread::sleep_for(std::max(std::min(pause, kLongestPause), reply.wait));
    }
  }

  std::string first_model() {
    const Reply reply = send(*clients.front(), "/v1/models", "");
    if (!reply.ok()) {
      fail(reply.words() + "; expected the address of a server, such as http://127.0.0.1:8080");
    }
    const Json list = parsed(reply.body);
    std::string name = text_of(member(first(member(&list, "data")), "id"));
    if (name.empty()) fail("/v1/models names no model");
    return name;
  }

  ServedFile ask(Client& client, std::span<const int32_t> ids) const {
    const fs::file_time_type before = fs::file_time_type::clock::now() - kClocksApart;
    const Json request = {{"model", model},           {"prompt", std::vector<int32_t>(ids.begin(), ids.end())},
                          {"max_tokens", 1},          {"temperature", 0},
                          {"return_token_ids", true}, {"kv_transfer_params", Json::object()}};
    const Reply reply = send(client, "/v1/completions", request.dump());
    const std::string document = "of a document of " + std::to_string(ids.size()) + " tokens: ";
    if (!reply.ok()) fail(document + reply.words());
    const Json answer = parsed(reply.body);
    const Json* prompt = member(first(member(&answer, "choices")), "prompt_token_ids");
    if (prompt != nullptr && prompt->is_array() && *prompt != request["prompt"]) {
      fail(document + "it answers with other token ids than it was sent; is it another model?");
    }
    const fs::path path = text_of(member(member(&answer, "kv_transfer_params"), "hidden_states_path"));
    if (path.empty()) {
      fail(document +
           "its answer names no file (kv_transfer_params.hidden_states_path); expected a server started with "
           "--allow-hidden-states, or vLLM with its connector for hidden states");
    }
    const std::string named = for_message(path.string(), 400);
    if (!path.is_absolute()) fail(document + "it names " + named + "; expected a path from the root");
    ServedFile file{path, false, wait_for_lock(path)};
    std::error_code problem;
    const fs::file_time_type written = fs::last_write_time(path, problem);
    if (problem == std::errc::permission_denied || (!problem && ::access(path.c_str(), R_OK) != 0)) {
      fail(document + named + " may not be read here; the server and this must run as the same user");
    }
    if (problem) {
      fail(document + "there is no file " + named +
           " here; the server's folder must be on a file system that this machine sees by the same path");
    }
    file.is_new = path.extension() == ".safetensors" && written >= before;
    return file;
  }

  HiddenServerOptions options;
  std::string model;
  std::vector<std::unique_ptr<Client>> clients;
  std::atomic<bool> stopped{false};  // one request has failed: the others need not be tried again
};

HiddenServer::HiddenServer(HiddenServerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  state_->model = state_->first_model();
}

HiddenServer::~HiddenServer() = default;

std::vector<ServedFile> HiddenServer::ask(std::span<const std::span<const int32_t>> documents) {
  std::vector<ServedFile> files(documents.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  state_->stopped = false;
  const auto work = [&](Client& client) {
    for (size_t i = next++; i < documents.size() && !state_->stopped; i = next++) {
      try {
        files[i] = state_->ask(client, documents[i]);
      } catch (const std::exception&) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
        state_->stopped = true;
      }
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(documents.size(), state_->clients.size()); ++i) {
    threads.emplace_back(work, std::ref(*state_->clients[i]));
  }
  threads.clear();  // joins
  if (failure == nullptr) return files;
  remove(files);
  std::rethrow_exception(failure);
}

void HiddenServer::remove(std::span<const ServedFile> files) {
  for (const ServedFile& file : files) {
    if (!file.is_new) continue;
    std::error_code ignored;
    fs::remove(file.path, ignored);
    if (file.has_lock) fs::remove(file.path.string() + ".lock", ignored);
  }
}

}  // namespace ashlar
