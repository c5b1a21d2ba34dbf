// SPDX-License-Identifier: Apache-2.0
#include "hub/transfer.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/error.h"
#include "io/json.h"

namespace ashlar::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr long kConnectSeconds = 20;
constexpr size_t kMaxHeaderValue = 4096;
constexpr std::array<std::string_view, 11> kHeaders = {
    "etag",          "content-length", "content-range", "retry-after", "x-error-code", "x-error-message",
    "x-linked-etag", "x-linked-size",  "x-repo-commit", "location",    "content-type"};

bool is_sticky(const std::string& name) { return name.starts_with("x-linked-") || name == "x-repo-commit"; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
  std::string result = text;
  curl_free(text);
  return result;
}

// "https://host:443" in lower case; empty if the URL cannot be read.
std::string origin_of(const std::string& url) {
  CURLU* parsed = curl_url();
  std::string origin;
  if (curl_url_set(parsed, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK) {
    const std::string host = part_of(parsed, CURLUPART_HOST);
    if (!host.empty()) {
      origin = lower(part_of(parsed, CURLUPART_SCHEME) + "://" + host + ":" + part_of(parsed, CURLUPART_PORT));
    }
  }
  curl_url_cleanup(parsed);
  return origin;
}

// Whether the host answered that no program has this port, which is not the same as no answer in time.
bool was_refused(CURL* curl) {
  long reason = 0;
  return curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &reason) == CURLE_OK && reason == ECONNREFUSED;
}

struct GlobalCurl {
  GlobalCurl() { curl_global_init(CURL_GLOBAL_DEFAULT); }
};

}  // namespace

std::string Reply::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? "" : at->second;
}

int64_t Reply::number(const std::string& name, int64_t fallback) const {
  const std::string text = header(name);
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failed == std::errc() && end == text.data() + text.size() && !text.empty();
  return whole && value >= 0 && value <= int64_t{1} << 53 ? value : fallback;
}

struct Transfer::State {
  CURL* curl = nullptr;
  std::string origin, token;
  int64_t min_rate = 0;
  int patience_s = 0;
  std::function<bool()> stopped;
  const TransferRequest* request = nullptr;
  Exchange exchange;
  bool reached = false;  // some host has answered
  char error[CURL_ERROR_SIZE] = {};

  static size_t on_header(char* data, size_t, size_t size, void* self);
  static size_t on_body(char* data, size_t, size_t size, void* self);
  static int on_tick(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
  void prepare(const std::string& url);
  /// Sends the request to `url`; the next URL if it was redirected there, else empty.
  std::string once(const std::string& url, curl_slist* headers);
  std::string redirect(const std::string& from);
  void fail(std::string problem, bool fatal) {
    exchange.problem = std::move(problem);
    exchange.fatal = fatal;
  }
};

size_t Transfer::State::on_header(char* data, size_t, size_t size, void* self) {
  std::string_view line(data, size);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
  auto& headers = static_cast<State*>(self)->exchange.reply.headers;
  if (line.starts_with("HTTP/")) std::erase_if(headers, [](const auto& header) { return !is_sticky(header.first); });
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.size() > kMaxHeaderValue) return size;
  const std::string name = lower(line.substr(0, colon));
  line.remove_prefix(colon + 1);
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  if (std::find(kHeaders.begin(), kHeaders.end(), name) != kHeaders.end()) {
    // Only the first host, which is the endpoint, is believed about what it links to.
    if (is_sticky(name) && headers.contains(name)) return size;
    headers[name] = line;
  }
  return size;
}

size_t Transfer::State::on_body(char* data, size_t, size_t size, void* self) {
  auto& state = *static_cast<State*>(self);
  curl_easy_getinfo(state.curl, CURLINFO_RESPONSE_CODE, &state.exchange.reply.status);
  if (state.exchange.reply.status / 100 != 2 || !state.request->sink) return size;
  if (state.request->sink(state.exchange.reply, {data, size})) return size;
  state.exchange.stopped = true;
  return 0;
}

int Transfer::State::on_tick(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& state = *static_cast<State*>(self);
  if (!state.stopped || !state.stopped()) return 0;
  state.exchange.stopped = true;
  return 1;
}

void Transfer::State::prepare(const std::string& url) {
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOBODY, request->head_only ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(min_rate));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(patience_s));
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L << 10);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "ashlar");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &State::on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &State::on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &State::on_tick);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, this);
}

std::string Transfer::State::once(const std::string& url, curl_slist* headers) {
  prepare(url);
  // A length is of no use if it is that of compressed bytes.
  headers = curl_slist_append(headers, "Accept-Encoding: identity");
  if (!token.empty() && origin_of(url) == origin) {
    headers = curl_slist_append(headers, ("Authorization: Bearer " + token).c_str());
  }
  if (request->from > 0)
    headers = curl_slist_append(headers, ("Range: bytes=" + std::to_string(request->from) + "-").c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  error[0] = '\0';
  exchange.reply.status = 0;
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &exchange.reply.status);
  if (code != CURLE_OK) {
    const bool fatal = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
                       code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
    // A host that answered a moment ago is there again soon; one that never did is misspelt, or there is no network.
    exchange.no_such_hub = !reached && (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
                                        (code == CURLE_COULDNT_CONNECT && was_refused(curl)));
    if (!exchange.stopped) fail(error[0] != '\0' ? error : curl_easy_strerror(code), fatal || exchange.no_such_hub);
    return {};
  }
  reached = true;
  const long status = exchange.reply.status;
  if (status / 100 != 3 || status == 304) return {};
  if (request->head_only && exchange.reply.headers.contains("x-linked-etag") &&
      exchange.reply.headers.contains("x-linked-size")) {
    return {};
  }
  return redirect(url);
}

std::string Transfer::State::redirect(const std::string& from) {
  char* next = nullptr;
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &next);
  const std::string url = next == nullptr ? "" : next;
  const std::string origin = origin_of(url);
  if (!origin.starts_with("http://") && !origin.starts_with("https://")) {
    fail("it redirects to " + for_message(url.empty() ? "nowhere" : without_password(url)) +
             "; expected an http or https URL",
         true);
    return {};
  }
  if (lower(from).starts_with("https://") && !origin.starts_with("https://")) {
    fail("it redirects from https to " + for_message(without_password(url)) + ", which is not encrypted; refused",
         true);
    return {};
  }
  return url;
}

Transfer::Transfer(const Settings& settings, std::function<bool()> stopped) : state_(std::make_unique<State>()) {
  static const GlobalCurl kGlobal;
  state_->curl = curl_easy_init();
  if (state_->curl == nullptr) throw Error("hub", "the HTTP client cannot be set up: out of memory");
  state_->origin = origin_of(settings.endpoint);
  if (state_->origin.empty())
    throw Error("hub", "HF_ENDPOINT is " + for_message(without_password(settings.endpoint)) + "; expected a URL");
  state_->token = settings.token;
  state_->min_rate = settings.min_rate;
  state_->patience_s = settings.patience_s;
  state_->stopped = std::move(stopped);
}

Transfer::~Transfer() { curl_easy_cleanup(state_->curl); }

void Transfer::expect_hosts() { state_->reached = true; }

Exchange Transfer::run(const TransferRequest& request) {
  state_->request = &request;
  state_->exchange = {};
  std::string url = request.url;
  for (int hops = 0; !url.empty(); ++hops) {
    if (hops > kMaxRedirects) {
      state_->fail("it redirects more than " + std::to_string(kMaxRedirects) + " times", true);
      break;
    }
    url = state_->once(url, nullptr);
  }
  return std::move(state_->exchange);
}

}  // namespace ashlar::hub
