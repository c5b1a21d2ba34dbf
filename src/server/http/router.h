// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which handler serves which method and path.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/connection/exchange.h"

namespace ashlar::server {

/// The values of a pattern's parameters, decoded.
class PathParameters {
 public:
  void add(std::string name, std::string value) { values_.emplace_back(std::move(name), std::move(value)); }
  /// The parameter must be in the pattern.
  const std::string& operator[](std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

using RouteHandler = std::function<void(std::shared_ptr<Exchange>, const PathParameters&)>;

/// Filled before the server starts, then read by any number of threads.
class Router {
 public:
  /// `pattern` is "/v1/models/{id}", where {id} takes one segment that is not empty; a last segment {id...} takes all
  /// that is left, slashes and all. Of several patterns that match, literal segments win over {id}, and that over
  /// {id...}, from the left. A GET route serves HEAD too.
  void add(std::string method, std::string pattern, RouteHandler handler);

  struct Match {
    const RouteHandler* handler = nullptr;
    PathParameters parameters;
    std::vector<std::string> allowed;  ///< methods of the path, sorted; empty: no such path
  };
  Match find(std::string_view method, std::string_view path) const;

  /// What was added, as "GET /v1/models/{id}".
  std::vector<std::string> routes() const;

  /// Calls the handler and returns 0, or answers 404, 405 with Allow, or 204 with Allow for OPTIONS, and returns that.
  int handle(const std::shared_ptr<Exchange>& exchange) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    std::string rank;  ///< a letter a segment; lower wins
    RouteHandler handler;
  };
  std::vector<Route> routes_;  ///< by rank
};

}  // namespace ashlar::server
