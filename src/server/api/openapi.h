#pragma once
// The OpenAPI document of the server, written from the table of fields.

#include "io/json.h"

namespace ashlar::server {

/// OpenAPI 3.1. Each property says in x-ashlar-use whether it acts, is tolerated or is refused.
Json openapi_document();

}  // namespace ashlar::server
