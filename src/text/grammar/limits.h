// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a grammar from outside may cost. Exceeding a limit is Error("grammar") that names it, LimitExceeded where the
// whole of the grammar is too much and not one place of it.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/error.h"

namespace ashlar::grammar {

struct Limits {
  size_t input_bytes = size_t{256} << 10;  ///< of the schema, pattern, grammar or all choices together
  int32_t nesting = 64;                    ///< groups, sub-schemas
  int32_t repeat = 10000;                  ///< counts of {m,n}, minLength, maxItems, ...
  int32_t rules = 20000;
  int32_t nodes = 400000;   ///< of the automaton
  int64_t steps = 2000000;  ///< of a compilation, so that merging schemas cannot explode
  /// Asked every few thousand steps: true ends the compilation with an error that is never read.
  std::function<bool()> unwanted = {};
};

/// What following answers may cost, in StateGraph::work(). A core does about 32 million of its units a second. Costs
/// are counted as if nothing of the grammar were known yet, so that it depends on an answer's tokens alone whether they
/// are too much, and not on caches, on other answers or on how the work was cut.
struct MatchingLimits {
  static constexpr uint64_t kRequest = uint64_t{1} << 28;  ///< of all answers, each of which has an equal share
  static constexpr uint64_t kFree = uint64_t{1} << 17;     ///< of each token, not counted
};

struct LimitExceeded : Error {
  using Error::Error;
};

}  // namespace ashlar::grammar
