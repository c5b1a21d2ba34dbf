// SPDX-License-Identifier: Apache-2.0
#include "base/similar_word.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ashlar {
namespace {

// How many characters have to be changed, added, left out or swapped with the next one to make one word of the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, last, row(b.size() + 1);  // rows i - 2, i - 1 and i of the table of prefixes' distances
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::move(last);
    last = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t least = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool begins = word.size() > 2 && candidate.starts_with(word);
    const size_t away = begins ? 1 : distance(word, candidate);
    if (away >= least) continue;
    least = away;
    best = candidate;
  }
  return best;
}

}  // namespace ashlar
