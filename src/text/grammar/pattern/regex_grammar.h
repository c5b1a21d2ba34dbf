// SPDX-License-Identifier: Apache-2.0
#pragma once
// Regular expressions as grammars: literals, escapes, classes, groups, | ? * + {m,n} and '.'. No look-around, back
// references, word boundaries or flags. What matches is a set of texts, so that lazy and greedy are the same.

#include <functional>
#include <string_view>

#include "text/grammar/builder.h"
#include "text/grammar/pattern/char_kinds.h"

namespace ashlar::grammar {

/// How one character of a set reads; plain UTF-8 or as part of a JSON string.
using CharWriter = std::function<Expr(const CodePointSet&)>;

struct RegexOptions {
  std::string_view what = "the regular expression";  ///< for errors
  /// True: as JSON schema has it, the pattern may match anywhere unless ^ and $ say otherwise. False: it matches the
  /// whole text. ^ and $ stand only at the ends of the pattern or of its outermost alternatives.
  bool search = false;
  Reading reading = Reading::kNarrow;
};

/// Throws Error("grammar") that names what is not understood and where.
Expr regex_expression(Builder& builder, std::string_view pattern, const CharWriter& write, const RegexOptions& options);

}  // namespace ashlar::grammar
