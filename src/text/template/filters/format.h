// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python's two ways of formatting strings.

#include "text/template/run/arguments.h"
#include "text/template/values/value.h"

namespace ashlar::tmpl {

/// text % arguments (printf style); arguments is a tuple, a dict or a single value.
Value format_percent(Budget& budget, const Value& text, const Value& arguments);
/// text.format(...): fields may look into attributes and items, through the sandbox.
Value format_braces(Budget& budget, const Value& text, const Arguments& arguments);

/// One number or string by the mini language of format(): [[fill]align][sign][#][0][width][,][.precision][type].
SourcedText format_spec(Budget& budget, const Value& value, const SourcedText& spec);

}  // namespace ashlar::tmpl
