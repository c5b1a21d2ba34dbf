// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/template/run/variable.h"
#include "text/template/values/value.h"

namespace ashlar::tmpl {

/// A JSON value as Python's json.loads would give it, but integers beyond 63 bits as floats. Fails on binary and too
/// deep nesting.
Value from_json(Budget& budget, const Variable& variable);

}  // namespace ashlar::tmpl
