// SPDX-License-Identifier: Apache-2.0
#pragma once
// Look-ahead at the beginning of a pattern, ^(?=a)(?!b)rest, as patterns that must and must not match the same text.

#include <string>
#include <string_view>
#include <vector>

namespace ashlar::grammar {

struct LookaheadPattern {
  std::string rest;                              ///< the pattern without them
  std::vector<std::string> required, forbidden;  ///< each for the text's beginning
};

bool begins_with_lookahead(std::string_view pattern);
/// Takes them off. A pattern with outermost alternatives stays as it is, since they belong to the first only.
LookaheadPattern split_lookaheads(std::string_view pattern);

}  // namespace ashlar::grammar
