// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many positions a pass unmasks where their number is fixed in advance.

#include <algorithm>
#include <cstdint>

namespace ashlar {

/// Of `block` positions shared out over `steps` passes (0: one position a pass), those of pass number `pass`: equal
/// shares, the remainder in the first passes (LLaDA's get_num_transfer_tokens). At least 1.
inline int32_t even_share(int32_t block, int32_t steps, int32_t pass) {
  if (steps <= 0) return 1;
  return std::max(block / steps + (pass < block % steps ? 1 : 0), 1);
}

}  // namespace ashlar
