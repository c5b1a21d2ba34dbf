// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every endpoint of the server.

#include <string>

#include "server/http/http_server.h"
#include "server/http/router.h"
#include "server/service/service.h"

namespace ashlar::server {

/// What routes need besides the service. Outlives the router.
struct RouteContext {
  Service* service = nullptr;        ///< set before the first request
  const HttpServer* http = nullptr;  ///< set before the first request; for its counters
  std::string version;
};

/// Every route is in the OpenAPI document too; a test holds them together.
void add_routes(Router& router, RouteContext& context);
/// Of these, those about models that Ollama's clients ask for.
void add_ollama_routes(Router& router, RouteContext& context);

HttpResponse json_response(const Json& value, int status = 200);

}  // namespace ashlar::server
