// SPDX-License-Identifier: Apache-2.0
#pragma once
// One HTTP exchange after another with the hub and the hosts it sends us to. All errors of the network come back as
// words, so that the caller can decide whether to try again.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "hub/settings.h"

namespace ashlar::hub {

/// Status and those headers that matter here, names in lower case. What the endpoint said in an `x-linked-...` or
/// `x-repo-commit` header before it redirected is kept; the other headers are of the last answer.
struct Reply {
  long status = 0;
  std::map<std::string, std::string> headers;

  /// Empty if there is none.
  std::string header(const std::string& name) const;
  /// A header of decimal digits, at most 2^53; `fallback` if it is missing or anything else.
  int64_t number(const std::string& name, int64_t fallback) const;
};

struct Exchange {
  Reply reply;
  /// Empty if the answer came whole; else why not, in words. Worth another try unless `fatal`.
  std::string problem;
  bool fatal = false;  ///< a redirect that must not be followed, a certificate that is wrong, no such hub
  /// The problem: no address is known for the host, or it refuses connections, and no host was reached before.
  bool no_such_hub = false;
  bool stopped = false;  ///< `stopped` or the sink ended it
};

struct TransferRequest {
  std::string url;
  bool head_only = false;
  int64_t from = 0;  ///< first byte wanted; 0: all
  /// Takes the body of a 2xx answer piece by piece; returns false to end the exchange.
  std::function<bool(const Reply&, std::string_view)> sink;
};

/// Not thread-safe; keeps connections open for the next exchange.
class Transfer {
 public:
  /// `stopped` is asked about once a second at the least.
  Transfer(const Settings& settings, std::function<bool()> stopped);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Follows at most 10 redirects, to http and https only and never from https to http. The token goes to the scheme,
  /// host and port of the endpoint, and nowhere else. A HEAD ends at the answer that has x-linked-etag and
  /// x-linked-size.
  Exchange run(const TransferRequest& request);
  /// Another one has reached the hub already, so that a host whose address is not known is worth another try.
  void expect_hosts();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ashlar::hub
