// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jinja's built-in tests: `value is name(arguments)`.

#include <string_view>

#include "text/template/parse/ast.h"

namespace ashlar::tmpl {

/// A test by name, or null.
TestFn find_test(std::string_view name);

}  // namespace ashlar::tmpl
