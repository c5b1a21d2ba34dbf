// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a model fits into memory, and how much of it its KV cache gets: known before anything is loaded.

#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/machine/available_memory.h"
#include "decode/drafters.h"
#include "engine/engine.h"
#include "io/weights/checkpoint.h"
#include "session/memory_plan.h"

namespace ashlar {

struct SessionOptions;

/// What target and drafter take in addition to the KV cache, in bytes.
struct MemoryNeeds {
  int64_t weights = 0;
  int64_t workspace = 0;       ///< activations, logits, threads
  int64_t per_position = 0;    ///< rotary tables, for each position of the longest sequence
  int64_t target_weights = 0;  ///< of `weights`, those of the target
  int64_t target_numbers = 0;  ///< that these hold
};

/// Of folders whose headers are read; no drafter: null. Weights are counted as the device keeps them. The files
/// themselves stay mapped while they are packed only, and count as page cache.
MemoryNeeds memory_needs(const Ops& ops, const Checkpoint& target, const ModelConfig& config, const Checkpoint* drafter,
                         const DrafterFacts* facts, const EngineOptions& engine);

/// Thrown where a model does not fit into the memory that is free.
class NoRoom : public Error {
 public:
  NoRoom(const std::string& message, int64_t needed, const MemoryNeeds& needs, AvailableMemory available,
         bool of_wishes)
      : Error("memory", message), needed(needed), needs(needs), available(std::move(available)), of_wishes(of_wishes) {}

  int64_t needed;  ///< bytes of all, with the least that a cache needs
  MemoryNeeds needs;
  AvailableMemory available;
  bool of_wishes;  ///< what was asked for is too large; the model would fit with a smaller cache
};

/// What was asked for, and what the model could use.
struct MemoryWishes {
  int64_t kv_bytes = 0;          ///< of the cache; 0: what it needs, or what there is
  int64_t positions = 0;         ///< of the longest sequence
  bool positions_asked = false;  ///< by --max-context: not to be lowered
  int32_t sequences = 1;         ///< that run at once
};

/// All that decides.
struct MemorySituation {
  MemoryPlan plan;
  MemoryNeeds needs;
  MemoryWishes wishes;
  AvailableMemory available;
};

struct MemoryBudget {
  MemoryNeeds needs;
  AvailableMemory available;
  int64_t positions = 0;    ///< of the longest sequence: as wished for, or what fits
  int64_t kv_bytes = 0;     ///< that the cache takes at most
  bool kv_limited = false;  ///< it is less than it would take by itself
  int64_t margin = 0;       ///< left to others
  int64_t states = 0;       ///< of kv_bytes: states of recurrent layers

  /// "21.9 MiB of weights, 40.2 MiB of workspace, up to 1.20 GiB of KV cache; 7.80 GiB are free". Of a device's own
  /// memory it says so, and what is left to the device.
  std::string describe() const;
};

/// Throws NoRoom saying what is needed, what there is and what to do if the model does not fit, or if the cache that
/// was asked for does not; Error("memory", ...) where one sequence does not fit into that cache. Where nothing was
/// asked for, cache and, if it must be, longest sequence become smaller instead.
MemoryBudget budget_memory(const MemorySituation& situation);

/// Of a model and its drafter (null: none), with the memory that is available now to the device: its own, if it has
/// some.
MemorySituation memory_situation(const Ops& ops, const ModelConfig& config, const DrafterFacts* drafter,
                                 const SessionOptions& options);

}  // namespace ashlar
