#pragma once

#include "decode/policy/width_policy.h"

namespace ashlar::testing {

/// What rows cost on a machine where every row takes as long as the one before it.
inline RowCost line(double fixed, double per_row) {
  RowCost cost;
  cost.add(1, fixed + per_row);
  cost.add(16, fixed + 16 * per_row);
  return cost;
}

}  // namespace ashlar::testing
