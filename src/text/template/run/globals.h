// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "text/template/values/value.h"

namespace ashlar::tmpl {

/// The function that every template sees under `name` (range, namespace, raise_exception, ...), or null.
const Value* find_global(const std::string& name);

/// strftime(format, time) in the C locale.
std::string format_time(Budget& budget, std::string_view format, const std::tm& time);

}  // namespace ashlar::tmpl
