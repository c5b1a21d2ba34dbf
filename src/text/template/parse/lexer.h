// SPDX-License-Identifier: Apache-2.0
#pragma once
// Template source to tokens, with Jinja's white space rules (trim_blocks and lstrip_blocks on, as transformers sets
// them) already applied: the parser sees text, markers and expression tokens only.

#include <string>
#include <string_view>
#include <vector>

namespace ashlar::tmpl {

enum class TokenType {
  kText,           ///< literal template text
  kVariableBegin,  ///< {{
  kVariableEnd,    ///< }}
  kBlockBegin,     ///< {%
  kBlockEnd,       ///< %}
  kName,
  kString,   ///< text holds the value, escapes resolved
  kInteger,  ///< text holds the literal
  kFloat,
  kOperator,  ///< text holds the operator
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text;
  int line = 1;
};

/// Tokens of a template, the last one kEnd. Throws LocatedFailure on anything that is not a template.
std::vector<Token> tokenize(std::string_view source);

/// What the error messages call a token.
std::string describe(const Token& token);

}  // namespace ashlar::tmpl
