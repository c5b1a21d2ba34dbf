// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ashlar::tmpl {

/// HTML escaping as markupsafe does it.
std::string escape_html(std::string_view text);

}  // namespace ashlar::tmpl
