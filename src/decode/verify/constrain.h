// SPDX-License-Identifier: Apache-2.0
#pragma once
// A constraint's mask on the row that yields a slot's next token.

#include <cstdint>
#include <vector>

#include "decode/slot_table.h"

namespace ashlar {

enum class Masked : uint8_t {
  kNo,    ///< the slot has no constraint, or it lets anything pass
  kSome,  ///< `allowed` says what may be chosen
  kAll,   ///< nothing may be chosen
};

/// Fills `allowed` with bit (id % 32) of word id / 32 for each token that may be chosen, where that is not all of them.
Masked constrain(const Slot& slot, int32_t vocab, std::vector<uint32_t>& allowed);

inline bool is_allowed(const std::vector<uint32_t>& allowed, int32_t token) {
  return (allowed[static_cast<size_t>(token) / 32] >> (token % 32) & 1U) != 0;
}

}  // namespace ashlar
