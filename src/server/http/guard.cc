// SPDX-License-Identifier: Apache-2.0
#include "server/http/guard.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

namespace ashlar::server {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& known) { return known == "*" || equal_ignoring_case(known, name); });
}

/// "localhost" of "localhost:8080" and of "localhost.", "[::1]" of "[::1]:8080"; empty if what follows is no port.
std::string_view without_port(std::string_view host) {
  const size_t end =
      host.starts_with('[') ? std::min(host.find(']'), host.size() - 1) + 1 : std::min(host.find(':'), host.size());
  std::string_view name = host.substr(0, end);
  std::string_view port = host.substr(end);
  if (!port.empty()) port.remove_prefix(1);
  const bool is_port = std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_port || (end < host.size() && host[end] != ':')) return {};
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

/// Whether the page that asks came from this server itself, as far as its browser says.
bool same_origin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(origin.substr(0, scheme.size()), scheme)) continue;
    return !host.empty() && equal_ignoring_case(origin.substr(scheme.size()), host);
  }
  return false;
}

bool header_names(std::string_view list) {
  return list.size() <= 1024 && std::all_of(list.begin(), list.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                  c == ',' || c == ' ';
         });
}

HttpResponse refusal(std::string_view path, int status, std::string_view code, std::string_view message) {
  return error_response(path, status, status == 401 ? "authentication_error" : "permission_error", message, {}, code);
}

HttpResponse preflight_answer(const HttpRequest& request) {
  HttpResponse answer;
  answer.status = 204;
  answer.content_type = "";
  answer.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"},
                    {"Access-Control-Max-Age", "600"}};
  const std::string_view wanted = request.header("Access-Control-Request-Headers");
  if (!wanted.empty() && header_names(wanted)) {
    answer.headers.push_back({"Access-Control-Allow-Headers", std::string(wanted)});
  }
  if (request.header("Access-Control-Request-Private-Network") == "true") {
    answer.headers.push_back({"Access-Control-Allow-Private-Network", "true"});
  }
  return answer;
}

}  // namespace

Guard::Guard(const GuardOptions& options) : options_(options) {
  for (std::string& key : options_.api_keys) {
    keys_.push_back(digest(key));
    OPENSSL_cleanse(key.data(), key.size());
  }
  options_.api_keys.clear();
}

Guard::Digest Guard::digest(std::string_view key) {
  Digest result;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), result.data());
  return result;
}

bool Guard::host_allowed(std::string_view host) const {
  if (!options_.loopback && options_.host_names.empty()) return true;
  // HTTP/1.0 clients may send no Host; browsers, which can be tricked, always do.
  if (host.empty()) return true;
  const std::string_view name = without_port(host);
  for (const std::string_view local : {"localhost", "127.0.0.1", "[::1]"}) {
    if (options_.loopback && equal_ignoring_case(name, local)) return true;
  }
  return contains(options_.host_names, name);
}

bool Guard::origin_allowed(std::string_view origin) const { return contains(options_.origins, origin); }

/// Looks at all keys, and at digests, so that the time shows nothing of how much of a key was right.
bool Guard::known_key(std::string_view key) const {
  const Digest offered = digest(key);
  int known = 0;
  for (const Digest& digest : keys_) known |= CRYPTO_memcmp(digest.data(), offered.data(), digest.size()) == 0 ? 1 : 0;
  return known != 0;
}

bool Guard::has_key(const HttpRequest& request) const {
  std::string_view bearer = request.header("Authorization");
  constexpr std::string_view kScheme = "Bearer ";
  bool known = false;
  if (equal_ignoring_case(bearer.substr(0, kScheme.size()), kScheme)) {
    bearer.remove_prefix(kScheme.size());
    bearer.remove_prefix(std::min(bearer.size(), bearer.find_first_not_of(' ')));
    known = known_key(bearer);
  }
  if (const Header* header = find_header(request.headers, "x-api-key")) known = known_key(header->value) || known;
  return known;
}

Decision Guard::check(const HttpRequest& request) const {
  Decision decision = decide(request);
  if (!decision.answer) return decision;
  Headers& headers = decision.answer->headers;
  headers.insert(headers.end(), decision.headers.begin(), decision.headers.end());
  decision.headers.clear();
  return decision;
}

/// The headers of the decision are for either answer.
Decision Guard::decide(const HttpRequest& request) const {
  Decision decision;
  if (!host_allowed(request.host)) {
    decision.answer = refusal(request.path, 403, "host_not_allowed",
                              "This server does not go by the name in the Host header; use localhost or a name it is "
                              "configured to answer to.");
    return decision;
  }
  if (!options_.origins.empty()) decision.headers.push_back({"Vary", "Origin"});
  const Header* origin = find_header(request.headers, "Origin");
  const bool configured = origin && origin_allowed(origin->value);
  if (origin && !configured && !same_origin(origin->value, request.host)) {
    decision.answer =
        refusal(request.path, 403, "origin_not_allowed", "Pages of this origin are not allowed to use this server.");
    return decision;
  }
  if (configured) {
    decision.headers.push_back({"Access-Control-Allow-Origin", origin->value});
    decision.headers.push_back({"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"});
    if (request.method == "OPTIONS" && find_header(request.headers, "Access-Control-Request-Method")) {
      decision.answer = preflight_answer(request);
      return decision;
    }
  }
  const auto& open = options_.open_paths;
  const bool is_open = std::find(open.begin(), open.end(), request.path) != open.end();
  if (keys_.empty() || is_open || has_key(request)) return decision;
  decision.answer = refusal(request.path, 401, "invalid_api_key",
                            "A valid API key is needed, as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\".");
  decision.headers.push_back({"WWW-Authenticate", "Bearer"});
  return decision;
}

}  // namespace ashlar::server
