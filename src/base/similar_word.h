// SPDX-License-Identifier: Apache-2.0
#pragma once
// The word that a mistyped one was meant to be.

#include <string>
#include <vector>

namespace ashlar {

/// The candidate that `word` is most like; empty if it is like none. A candidate that begins with a word of three or
/// more characters is one change away, else what counts is how many characters differ, at most a third of the word's;
/// two neighbours that are swapped count as one.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace ashlar
