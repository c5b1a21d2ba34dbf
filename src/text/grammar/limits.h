#pragma once
// What a grammar from outside may cost. Exceeding a limit is Error("grammar") that names it, LimitExceeded where the
// whole of the grammar is too much and not one place of it.

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace ashlar::grammar {

struct Limits {
  size_t input_bytes = size_t{256} << 10;  ///< of the schema, pattern, grammar or all choices together
  int32_t nesting = 64;                    ///< groups, sub-schemas
  int32_t repeat = 10000;                  ///< counts of {m,n}, minLength, maxItems, ...
  int32_t rules = 20000;
  int32_t nodes = 400000;   ///< of the automaton
  int64_t steps = 2000000;  ///< of a compilation, so that merging schemas cannot explode
};

struct LimitExceeded : Error {
  using Error::Error;
};

}  // namespace ashlar::grammar
