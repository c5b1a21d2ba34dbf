// SPDX-License-Identifier: Apache-2.0
#pragma once
// Grammars in the manner of GBNF:
//   root  ::= "yes" | "no" ( "," [ ]? name ){1,3}   # a comment
//   name  ::= [a-z_] [a-z0-9_]*
// "literals" and [classes] know \n \t \r \" \\ \xHH \uXXXX; '.' is any character. Rules may be recursive, but must not
// begin with themselves.

#include <string_view>

#include "text/grammar/builder.h"

namespace ashlar::grammar {

/// The rule `root`. Throws Error("grammar") that names what is not understood and where.
Expr ebnf_expression(Builder& builder, std::string_view text);

}  // namespace ashlar::grammar
