// SPDX-License-Identifier: Apache-2.0
#include "decode/verify/constrain.h"

#include <algorithm>

namespace ashlar {

Masked constrain(const Slot& slot, int32_t vocab, std::vector<uint32_t>& allowed) {
  if (slot.constraint == nullptr) return Masked::kNo;
  allowed.resize((static_cast<size_t>(vocab) + 31) / 32);
  if (!slot.constraint->mask(allowed)) return Masked::kNo;
  if (vocab % 32 != 0) allowed.back() &= (1U << (vocab % 32)) - 1;
  const bool allows_none = std::all_of(allowed.begin(), allowed.end(), [](uint32_t word) { return word == 0; });
  return allows_none ? Masked::kAll : Masked::kSome;
}

}  // namespace ashlar
