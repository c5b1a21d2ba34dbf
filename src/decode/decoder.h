#pragma once
// A decoding method as the engine sees it. The engine plans by upper bounds and knows nothing of what a method does
// inside a step.

#include <cstdint>
#include <memory>
#include <string>

#include "decode/slot_table.h"
#include "decode/step.h"
#include "kv/layout.h"

namespace ashlar {

/// Sizes that are fixed when the engine starts; a decoder allocates for them once.
struct StepLimits {
  int32_t max_rows = 0;  ///< rows of one step, all spans together
  int32_t max_spans = 0;
  int32_t max_slots = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual std::string name() const = 0;
  /// Most rows one decode span may have; also the most tokens it may append.
  virtual int32_t max_width() const = 0;
  virtual int32_t vocab() const = 0;
  /// Longest sequence in tokens.
  virtual int32_t max_positions() const = 0;

  virtual void register_planes(KvLayout& layout) = 0;
  /// Allocates everything a step needs. Called once, after register_planes; `kv` outlives the decoder.
  virtual void start(const StepLimits& limits, const KvMemory& kv) = 0;

  /// Prepares a slot for a sequence; may allocate. Called on the engine's thread while no step uses the slot.
  virtual void admit(int32_t slot, const Slot& state) = 0;

  /// Runs one step on the device's thread: reads the plan and the slots, advances the slots, writes result.spans[0..n).
  virtual void launch(const StepPlan& plan, SlotTable& slots, StepResult& result) = 0;
};

}  // namespace ashlar
