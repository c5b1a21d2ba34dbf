#pragma once
// A constraint's mask on a row of logits.

#include <cstdint>
#include <vector>

#include "decode/sampler.h"
#include "decode/slot_table.h"

namespace ashlar {

enum class Masked : uint8_t {
  kNo,    ///< the slot has no constraint, or it lets anything pass
  kSome,  ///< scratch.allowed says what may be chosen; everything else is minus infinity
  kAll,   ///< nothing may be chosen
};

/// Masks the row that yields the slot's next token. logits: [vocab].
Masked constrain(float* logits, int32_t vocab, const Slot& slot, SamplerScratch& scratch);

inline bool is_allowed(const std::vector<uint32_t>& allowed, int32_t token) {
  return (allowed[static_cast<size_t>(token) / 32] >> (token % 32) & 1U) != 0;
}

}  // namespace ashlar
