// SPDX-License-Identifier: Apache-2.0
// Any bytes as requests on a connection: each ends in a valid request or a refusal, whatever pieces they come in.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/http/guard.h"
#include "server/http/request_parser.h"
#include "server/http/router.h"

namespace {

using ashlar::server::HttpRequest;
using ashlar::server::RequestParser;

void require(bool law) {
  if (!law) std::abort();
}

/// What the rest of the server relies on.
void check_request(const HttpRequest& request) {
  require(!request.method.empty());
  require(request.path == "*" || request.path.front() == '/');
  require((request.path + "/").find("/../") == std::string::npos);
  require(request.path.find('\0') == std::string::npos && request.path.find('\\') == std::string::npos);
  require(request.body.size() <= 2000);
  for (const auto& header : request.headers) require(header.value.find_first_of("\r\n") == std::string::npos);
  static const ashlar::server::Guard kGuard({{"key"}, {"/health"}, true, {"box"}, {"https://page"}});
  kGuard.check(request);
  static const ashlar::server::Router kRouter = [] {
    ashlar::server::Router router;
    router.add("GET", "/v1/models/{id...}", nullptr);
    router.add("POST", "/v1/{id}/cancel", nullptr);
    return router;
  }();
  kRouter.find(request.method, request.path);
  for (const char* key : {"x", ""}) request.query_value(key);
}

/// All requests of `bytes`, in one line each, and how the last one ended.
std::string transcript(std::string_view bytes, size_t step) {
  std::string result;
  std::string input;
  for (int n = 0; n < 100; ++n) {
    RequestParser parser({1000, 2000});
    size_t offered = 0;
    while (parser.state() == RequestParser::State::kHead || parser.state() == RequestParser::State::kBody) {
      if (input.size() > offered) {
        const size_t taken = parser.feed(input);
        require(taken <= input.size());
        input.erase(0, taken);
        offered = taken > 0 ? 0 : input.size();
        continue;
      }
      if (bytes.empty()) return result + "unfinished";
      input += bytes.substr(0, step);
      bytes.remove_prefix(std::min(step, bytes.size()));
    }
    if (parser.state() == RequestParser::State::kFailed) {
      require(parser.failure().status >= 400);
      return result + "refused";
    }
    check_request(parser.request());
    const HttpRequest& request = parser.request();
    result += request.method + " " + request.path + " " + request.body + "\n";
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  // Where the bytes are cut must not matter: a proxy before us may cut them elsewhere.
  const std::string whole = transcript(bytes, bytes.size() + 1);
  const std::string pieces = transcript(bytes, data[0] % 64 + 1);
  if (whole.find("unfinished") == std::string::npos && pieces.find("unfinished") == std::string::npos) {
    require(whole == pieces);
  }
  return 0;
}
