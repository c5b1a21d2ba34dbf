#include "decode/constrain.h"

#include <algorithm>

namespace ashlar {

Masked constrain(float* logits, int32_t vocab, const Slot& slot, SamplerScratch& scratch) {
  std::vector<uint32_t>& allowed = scratch.allowed;
  if (slot.constraint == nullptr) return Masked::kNo;
  allowed.resize((static_cast<size_t>(vocab) + 31) / 32);
  if (!slot.constraint->mask(allowed)) return Masked::kNo;
  if (vocab % 32 != 0) allowed.back() &= (1U << (vocab % 32)) - 1;
  if (std::all_of(allowed.begin(), allowed.end(), [](uint32_t word) { return word == 0; })) return Masked::kAll;
  mask_logits(logits, vocab, allowed);
  return Masked::kSome;
}

}  // namespace ashlar
