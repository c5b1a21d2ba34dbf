// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files of the page at /, compiled in.

#include <span>
#include <string_view>

#include "server/http/http_message.h"

namespace ashlar::server {

struct PageFile {
  std::string_view path;  ///< where it is served
  std::string_view content_type;
  std::string_view content;
};
std::span<const PageFile> page_files();

/// Keeps browsers from loading anything from elsewhere, framing the page or guessing types.
Headers page_headers();

}  // namespace ashlar::server
