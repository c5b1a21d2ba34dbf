// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jinja decides at compile time where a name lives. The one effect that looking names up at run time would miss: a name
// that a scope assigns before it reads it belongs to that scope from its start. Inner scopes that run before the
// assignment (a loop further up, a macro called too early) see it undefined even where a variable of the template's
// input has that name.

#include "text/template/parse/ast.h"

namespace ashlar::tmpl {

/// Fills `hidden` of every scope below `body` and returns that of the template's own scope: the names which start out
/// undefined.
HiddenNames analyze_scopes(Body& body);

}  // namespace ashlar::tmpl
