// SPDX-License-Identifier: Apache-2.0
#include "train/data/frequent_tokens.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ashlar {
namespace {

/// fn(id, weight) for every token that is learnt.
template <class Fn>
void for_learnt(const DocumentSet& documents, const Fn& fn) {
  for (const size_t document : documents.training()) {
    const std::span<const int32_t> ids = documents.ids(document);
    const std::span<const uint8_t> supervised = documents.supervised(document);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (supervised[i] != 0) fn(ids[i], documents.weight(document));
    }
  }
}

}  // namespace

std::vector<int32_t> frequent_tokens(const DocumentSet& documents, int32_t vocab, int32_t n) {
  ASHLAR_CHECK(n >= 1 && n <= vocab);
  std::vector<double> counts(static_cast<size_t>(vocab), 0);
  for_learnt(documents, [&](int32_t id, double weight) { counts[static_cast<size_t>(id)] += weight; });
  std::vector<int32_t> ids(counts.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(
      ids, [&](int32_t a, int32_t b) { return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)]; });
  ids.resize(static_cast<size_t>(n));
  std::ranges::sort(ids);
  return ids;
}

double share_of_learnt(const DocumentSet& documents, std::span<const int32_t> ids) {
  double there = 0, all = 0;
  for_learnt(documents, [&](int32_t id, double weight) {
    all += weight;
    if (std::ranges::binary_search(ids, id)) there += weight;
  });
  return all > 0 ? there / all : 0.0;
}

}  // namespace ashlar
