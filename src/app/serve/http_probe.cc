// SPDX-License-Identifier: Apache-2.0
#include "app/serve/http_probe.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

constexpr size_t kMaxAnswer = 64 << 10;

[[noreturn]] void fail(const std::string& url, const std::string& why) {
  throw Error("health", for_message(url) + ": " + why);
}

using Url = std::unique_ptr<CURLU, void (*)(CURLU*)>;

std::string part_of(const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, 0) != CURLUE_OK) return {};
  std::string result = text;
  curl_free(text);
  return result;
}

Url parse(const std::string& text, const std::string& default_path) {
  Url url(curl_url(), curl_url_cleanup);
  const bool clean = std::none_of(text.begin(), text.end(), [](unsigned char c) { return c <= ' ' || c == 0x7F; });
  const bool known = text.starts_with("http://") || text.starts_with("https://");
  const size_t end = known ? std::min(text.find('/', text.find("//") + 2), text.size()) : 0;
  if (!clean || !known || text[end - 1] == ':' ||
      curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK || part_of(url, CURLUPART_PORT) == "0") {
    fail(text, "expected a URL such as http://127.0.0.1:8080");
  }
  if (part_of(url, CURLUPART_PATH) == "/") curl_url_set(url.get(), CURLUPART_PATH, default_path.c_str(), 0);
  return url;
}

bool on_this_machine(const std::string& host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

std::string reason(CURLcode code, const char* details) {
  if (*details == '\0') details = curl_easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return "the host is not found";
    case CURLE_OPERATION_TIMEDOUT:
      return "no answer in time";
    case CURLE_SSL_CONNECT_ERROR:
      return "no TLS connection; is the server one of http?";
    case CURLE_PEER_FAILED_VERIFICATION:
      return std::string("its certificate is not trusted (") + details + ")";
    case CURLE_GOT_NOTHING:
      return "the server closed the connection without an answer";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return "what answers does not speak HTTP";
    case CURLE_COULDNT_CONNECT:
      return std::string("no connection (") + details + "); is a server running there?";
    default:
      return std::string("no connection (") + details + ")";
  }
}

size_t append(const char* bytes, size_t /*one*/, size_t n, void* body) {
  auto& text = *static_cast<std::string*>(body);
  text.append(bytes, std::min(n, kMaxAnswer - text.size()));
  return text.size() < kMaxAnswer ? n : 0;  // fewer than there are end the transfer
}

}  // namespace

ProbeAnswer probe(const std::string& url, const std::string& default_path, std::chrono::milliseconds timeout) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  const Url target = parse(url, default_path);
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(ready == CURLE_OK ? curl_easy_init() : nullptr, curl_easy_cleanup);
  // Without a Host: a server that answers to certain names only answers this too.
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(curl_slist_append(nullptr, "Host:"),
                                                                   curl_slist_free_all);
  if (!curl || !headers) fail(url, "no memory");
  ProbeAnswer answer;
  char details[CURL_ERROR_SIZE] = {};
  const long checks = on_this_machine(part_of(target, CURLUPART_HOST)) ? 0 : 1;
  CURL* const c = curl.get();
  curl_easy_setopt(c, CURLOPT_CURLU, target.get());
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_0);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "ashlar-health");
  curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(timeout.count(), 1)));
  curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, checks);
  curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2 * checks);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, details);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &answer.body);
  const CURLcode code = curl_easy_perform(c);
  const bool is_cut = code == CURLE_WRITE_ERROR && answer.body.size() == kMaxAnswer;
  if (code != CURLE_OK && !is_cut) fail(url, reason(code, details));
  long status = 0;
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

}  // namespace ashlar
