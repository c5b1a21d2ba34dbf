// SPDX-License-Identifier: Apache-2.0
#pragma once
// State of running sequences that lives on the device side: steps read and advance it, the engine only writes a slot
// while nothing that uses it is in flight.

#include <cstdint>
#include <vector>

#include "decode/constraint.h"
#include "decode/method_choice.h"
#include "device/sampling/sampling_params.h"
#include "device/sampling/token_counts.h"

namespace ashlar {

struct Slot {
  int32_t length = 0;         ///< tokens whose K and V are in the cache; also the position of the last token
  int32_t last_token = -1;    ///< the newest token, not in the cache yet; -1 before the prompt's last chunk
  int32_t token_before = -1;  ///< the one before that; -1: not known
  int32_t limit = 0;          ///< the sequence ends when it has this many tokens, prompt included
  int32_t prompt_length = 0;
  int32_t prompt_top = 0;  ///< likeliest tokens listed with each token of the prompt that is scored
  int32_t width = 1;       ///< most tokens that a pass decides for this request
  int32_t pass = 0;        ///< of a sequence that comes back: passes that its open block has had
  int32_t replays = 0;     ///< rows of the logs of its recurrent states that are part of its `length` tokens
  bool done = false;
  SamplingParams params;
  std::vector<int32_t> stop_ids;
  TokenCounts counts;                     ///< kept only if the parameters have penalties
  TokenConstraint* constraint = nullptr;  ///< the request's own; null: anything goes
  MethodChoice choice;                    ///< the request's; checked
};

class SlotTable {
 public:
  explicit SlotTable(int32_t slots) : slots_(slots) {}
  Slot& operator[](int32_t slot) { return slots_[slot]; }
  int32_t size() const { return static_cast<int32_t>(slots_.size()); }

 private:
  std::vector<Slot> slots_;
};

}  // namespace ashlar
