// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one place that decides who may ask: API keys, DNS rebinding, other sites' pages. Pure: no sockets, no clock.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_message.h"

namespace ashlar::server {

struct GuardOptions {
  std::vector<std::string> api_keys;               ///< any of them opens; none: no key is asked for
  std::vector<std::string> open_paths{"/health"};  ///< exact paths that need no key
  /// The server listens on loopback only: then a Host must be localhost, 127.0.0.1, [::1] or in `host_names`, lest a
  /// page of some site, whose name an attacker points at 127.0.0.1, reaches it.
  bool loopback = true;
  std::vector<std::string> host_names;  ///< without ports; if given, other hosts are refused on any address. "*": all
  std::vector<std::string> origins;     ///< "https://chat.example" or with a port, whose pages may ask. "*": all
};

struct Decision {
  std::optional<HttpResponse> answer;  ///< instead of the handler's: a refusal, or what a preflight asks for
  Headers headers;                     ///< to add to the handler's answer; `answer` has its own
};

class Guard {
 public:
  explicit Guard(const GuardOptions& options);

  /// Refuses with 403 a wrong Host or Origin, on every path, and with 401 a missing or wrong key. A key comes as
  /// "Authorization: Bearer KEY" or "x-api-key: KEY"; one right key is enough. Preflights need none: browsers send
  /// none.
  Decision check(const HttpRequest& request) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  static Digest digest(std::string_view key);
  Decision decide(const HttpRequest& request) const;
  bool host_allowed(std::string_view host) const;
  bool origin_allowed(std::string_view origin) const;
  bool has_key(const HttpRequest& request) const;
  bool known_key(std::string_view key) const;

  GuardOptions options_;
  std::vector<Digest> keys_;  ///< SHA-256; the options' own copy is erased
};

}  // namespace ashlar::server
