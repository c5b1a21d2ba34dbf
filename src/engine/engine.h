// SPDX-License-Identifier: Apache-2.0
#pragma once
// The engine: requests in, token events out. Everything else in the product sees the engine through this header.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "decode/decoder.h"
#include "device/ops.h"
#include "engine/request.h"

namespace ashlar {

/// How many rows steps with prompts may have.
struct PromptRows {
  int32_t max_shared;    ///< of a step in which answers run: prompts and answers' own rows; drafts' are not counted
  int32_t max_alone;     ///< of a step of prompts alone, and of any step: no fewer
  int32_t chunk_shared;  ///< of one prompt in a step in which answers run
  int32_t chunk_alone;   ///< of one prompt in another
};

struct EngineOptions {
  int32_t max_sequences = 16;   ///< run at once; further requests wait
  int32_t max_queue = 1024;     ///< requests waiting; one more is refused
  int32_t max_step_rows = 512;  ///< of a step in which answers run: as max_shared (prefill_chunk: of others)
  /// Most prompt rows of one sequence in a step; 0: what prompt_rows() says.
  int32_t prefill_chunk = 0;
  /// Prompts are cut into shorter pieces where a step would take longer; 0: never.
  int64_t prompt_step_ns = 1'000'000'000;
  int64_t kv_bytes =
      0;  ///< memory for pages; 0: enough for max_sequences of a quarter of the context, at least one full
  int32_t kv_pages = 0;  ///< overrides kv_bytes (tests)
  int32_t depth = 2;     ///< steps in flight: 2 overlaps host and device, 1 is the plain loop
  bool prefix_cache = true;

  /// What these options ask for on `ops`. Where the chunk is not chosen, prompts alone have as many rows as suit the
  /// device, and fewer where answers wait for them.
  PromptRows prompt_rows(const Ops& ops) const {
    constexpr int32_t kSharedChunk = 512;
    if (prefill_chunk != 0) return {max_step_rows, max_step_rows, prefill_chunk, prefill_chunk};
    return {max_step_rows, std::max(max_step_rows, ops.prompt_rows()), kSharedChunk, ops.prompt_rows()};
  }

  /// Of the states of recurrent layers: every running sequence may hold one, and leave one or two.
  int32_t snapshots() const { return prefix_cache ? 4 * max_sequences : 0; }
};

/// Totals since the start. All monotonic except the gauges at the end.
struct EngineCounters {
  uint64_t steps = 0;
  uint64_t prefill_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t generated_tokens = 0;
  uint64_t verify_spans = 0;  ///< decode spans that ran
  uint64_t decided = 0;       ///< tokens that they decided
  uint64_t blocks = 0;        ///< blocks whose tokens were reported; 0 where tokens come one after another
  uint64_t drafted = 0;
  uint64_t accepted = 0;
  uint64_t ngram_accepted = 0;  ///< of the accepted
  uint64_t preemptions = 0;
  uint64_t requests_finished = 0;
  uint64_t requests_cancelled = 0;
  uint64_t requests_failed = 0;
  int64_t draft_ns = 0, verify_ns = 0, sample_ns = 0, context_ns = 0;  ///< device thread
  int64_t host_ns = 0;                                                 ///< planning and collecting
  int64_t device_wait_ns = 0;                                          ///< engine thread waiting for a step
  int32_t running = 0, waiting = 0;
  int32_t pages_total = 0, pages_free = 0, pages_cached = 0, pages_held = 0;
  int64_t last_progress_ns = 0;  ///< monotonic time of the newest sign of work: a finished step, or a part of one
  bool waits_for_masks = false;  ///< nothing can be computed before a constraint's mask has been found
};

class Engine {
 public:
  /// Takes the decoder and starts the engine's thread. `ops` and the decoder's models outlive the engine.
  /// Throws Error("engine", ...) if the options cannot work, for instance if the pages cannot hold one full sequence.
  Engine(Ops& ops, std::unique_ptr<Decoder> decoder, const EngineOptions& options);
  /// Cancels what runs, waits for the device, delivers every terminal event.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Checks and queues a request; thread-safe. A Failure says in words what is wrong with it (then no event follows).
  Result<RequestId> submit(Request request);
  /// Ends a request as soon as possible; thread-safe; unknown or ended ids are ignored.
  void cancel(RequestId id);
  /// Blocks until nothing runs or waits.
  void wait_idle();

  EngineCounters counters() const;
  /// Why the device can compute nothing more, as after a failed kernel of a GPU; empty: it can. Set before the first
  /// request ends with this reason, as all do from then on; further ones are refused with it: the process has to end.
  std::string lost() const;
  /// Forgets cached prefixes that no sequence uses.
  void drop_prefix_cache();
  /// Longest sequence in tokens, prompt included.
  int32_t max_positions() const;
  int32_t vocab() const;
  /// Largest width of a request.
  int32_t max_width() const;
  /// Positions of a block, whose tokens are unmasked in any order; 0 where tokens come one after another.
  int32_t block_size() const;
  /// Whether requests may ask for log-probabilities of their prompts.
  bool scores_prompts() const;
  /// What requests may ask for of each token of their prompts; no layers: nothing.
  HiddenRow hidden_row() const;
  /// What is wrong with the choice, or empty. submit() refuses what this does.
  std::string check(const MethodChoice& choice) const;
  std::string decoder_name() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar
