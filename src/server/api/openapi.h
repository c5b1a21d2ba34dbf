// SPDX-License-Identifier: Apache-2.0
#pragma once
// The OpenAPI document of the server, written from the table of fields and the shapes of answers.

#include <span>
#include <string_view>

#include "io/json.h"

namespace ashlar::server {

/// A file that the server hands out to anybody.
struct OpenFile {
  std::string_view path;
  std::string_view content_type;
};

/// OpenAPI 3.1, all routes of the server with these files. Each property of a request says in x-ashlar-use whether it
/// acts, is tolerated or is refused.
Json openapi_document(std::span<const OpenFile> files);

}  // namespace ashlar::server
