// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/pattern/lookahead.h"

namespace ashlar::grammar {
namespace {

// Where the outermost level of `pattern` has a '|' or, from `from` on, closes a group; npos: nowhere.
size_t find_outer(std::string_view pattern, size_t from, char wanted) {
  int depth = 0;
  bool in_class = false;
  for (size_t i = from; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (depth == 0 && c == wanted) {
      return i;
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    }
  }
  return std::string_view::npos;
}

// Every outermost alternative begins where the text does.
std::string anchored(std::string_view pattern) {
  std::string out;
  for (;;) {
    const size_t end = find_outer(pattern, 0, '|');
    out.append("^").append(pattern.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '|';
    pattern.remove_prefix(end + 1);
  }
}

}  // namespace

bool begins_with_lookahead(std::string_view pattern) {
  return pattern.starts_with("^(?=") || pattern.starts_with("^(?!");
}

LookaheadPattern split_lookaheads(std::string_view pattern) {
  LookaheadPattern out;
  if (!begins_with_lookahead(pattern) || find_outer(pattern, 0, '|') != std::string_view::npos) {
    out.rest = pattern;
    return out;
  }
  pattern.remove_prefix(1);
  while (pattern.starts_with("(?=") || pattern.starts_with("(?!")) {
    const size_t end = find_outer(pattern, 3, ')');
    if (end == std::string_view::npos) break;  // the parser of the rest says what is wrong
    (pattern[2] == '=' ? out.required : out.forbidden).push_back(anchored(pattern.substr(3, end - 3)));
    pattern.remove_prefix(end + 1);
  }
  out.rest = "^" + std::string(pattern);
  return out;
}

}  // namespace ashlar::grammar
