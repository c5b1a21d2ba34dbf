// SPDX-License-Identifier: Apache-2.0
#include "server/http/router.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "io/json.h"

namespace ashlar::server {
namespace {

bool is_parameter(std::string_view segment) { return segment.starts_with('{') && segment.ends_with('}'); }
bool takes_rest(std::string_view segment) { return segment.starts_with('{') && segment.ends_with("...}"); }

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> segments;
  for (;;) {
    path.remove_prefix(1);  // the slash
    const size_t slash = path.find('/');
    segments.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash);
  }
}

bool match(const std::vector<std::string>& pattern, const std::vector<std::string>& path, PathParameters& parameters) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string& wanted = pattern[i];
    if (i >= path.size()) return false;
    if (takes_rest(wanted)) {
      std::string rest = path[i];
      for (size_t j = i + 1; j < path.size(); ++j) rest += "/" + path[j];
      const bool some = !rest.empty();
      parameters.add(wanted.substr(1, wanted.size() - 5), std::move(rest));
      return some;
    }
    if (is_parameter(wanted)) {
      if (path[i].empty()) return false;
      parameters.add(wanted.substr(1, wanted.size() - 2), path[i]);
    } else if (wanted != path[i]) {
      return false;
    }
  }
  return pattern.size() == path.size();
}

std::string join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined;
}

}  // namespace

const std::string& PathParameters::operator[](std::string_view name) const {
  const auto found =
      std::find_if(values_.begin(), values_.end(), [&](const auto& value) { return value.first == name; });
  ASHLAR_CHECK(found != values_.end());
  return found->second;
}

void Router::add(std::string method, std::string pattern, RouteHandler handler) {
  ASHLAR_CHECK(pattern.starts_with('/'));
  Route route{std::move(method), split(pattern), {}, std::move(handler)};
  for (const std::string& segment : route.segments) {
    route.rank += takes_rest(segment) ? 'c' : is_parameter(segment) ? 'b' : 'a';
    ASHLAR_CHECK(!takes_rest(segment) || &segment == &route.segments.back());
  }
  const auto place = std::upper_bound(routes_.begin(), routes_.end(), route,
                                      [](const Route& a, const Route& b) { return a.rank < b.rank; });
  routes_.insert(place, std::move(route));
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  Match result;
  if (!path.starts_with('/')) return result;
  const std::vector<std::string> segments = split(path);
  std::set<std::string> methods;
  const Route* stand_in = nullptr;  // GET for HEAD
  PathParameters stand_in_parameters;
  for (const Route& route : routes_) {
    PathParameters parameters;
    if (!match(route.segments, segments, parameters)) continue;
    methods.insert(route.method);
    if (!result.handler && route.method == method) {
      result.handler = &route.handler;
      result.parameters = std::move(parameters);
    } else if (!stand_in && method == "HEAD" && route.method == "GET") {
      stand_in = &route;
      stand_in_parameters = std::move(parameters);
    }
  }
  if (!result.handler && stand_in) {
    result.handler = &stand_in->handler;
    result.parameters = std::move(stand_in_parameters);
  }
  if (methods.contains("GET")) methods.insert("HEAD");
  if (!methods.empty()) methods.insert("OPTIONS");
  result.allowed.assign(methods.begin(), methods.end());
  return result;
}

std::vector<std::string> Router::routes() const {
  std::vector<std::string> out;
  for (const Route& route : routes_) {
    out.push_back(route.method + " ");
    for (const std::string& segment : route.segments) out.back() += "/" + segment;
  }
  return out;
}

int Router::handle(const std::shared_ptr<Exchange>& exchange) const {
  const HttpRequest& request = exchange->request();
  const Match found = find(request.method, request.path);
  if (found.handler) {
    (*found.handler)(exchange, found.parameters);
    return 0;
  }
  HttpResponse response;
  if (request.method == "OPTIONS" && (request.path == "*" || !found.allowed.empty())) {
    response.status = 204;
    response.content_type = "";
  } else if (found.allowed.empty()) {
    response = error_response(request.path, 404, "invalid_request_error",
                              "There is no " + for_message(request.path) + " here.", {}, "not_found");
  } else {
    response = error_response(request.path, 405, "invalid_request_error",
                              for_message(request.path) + " does not take " + for_message(request.method) +
                                  "; it takes " + join(found.allowed) + ".",
                              {}, "method_not_allowed");
  }
  if (!found.allowed.empty()) response.headers.push_back({"Allow", join(found.allowed)});
  const int status = response.status;
  exchange->respond(std::move(response));
  return status;
}

}  // namespace ashlar::server
