// SPDX-License-Identifier: Apache-2.0
#pragma once
// What drafting takes, by how many tokens are drafted, for several drafters of one model in turns: one that fills a
// block in one pass next to one that drafts token by token.

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"
#include "measure/engine/bench.h"

namespace ashlar {

struct DraftLatencyOptions {
  int32_t repeat = 50;    ///< rounds
  int32_t context = 256;  ///< tokens before the first step
  double seconds = 60;    ///< about as long as all rounds may take together; 0: any time
  /// Rows of a block: the last token and its drafts. A drafter is measured at those that it fills.
  std::vector<int32_t> blocks = {2, 3, 5, 8, 16};
};

struct NamedDrafter {
  std::string name;
  std::filesystem::path folder;
};

/// One drafter; medians in seconds.
struct DraftLatency {
  struct Block {
    int32_t rows = 0;
    double draft = 0;    ///< until the host has the drafts, from when the step before is over
    double context = 0;  ///< after a verify: to write what the drafter keeps of the rows that stay
  };
  std::string name;
  std::vector<Block> blocks;
};

struct DraftLatencies {
  DraftLatencyOptions options;
  int32_t rounds = 0;
  double plain = 0;  ///< seconds of a step without drafts
  std::vector<DraftLatency> drafters;
};

/// Drafts are chains, greedy, of one sequence. The subject's own drafter counts for nothing. Throws Error("drafter",
/// ...) for one that does not fit, Error("bench", ...) where the model's context is too short.
DraftLatencies run_draft_latency(const BenchSubject& subject, const std::vector<NamedDrafter>& drafters,
                                 const DraftLatencyOptions& options, const BenchProgress& progress = {});

std::string draft_latency_text(const DraftLatencies& latencies);
Json draft_latency_json(const DraftLatencies& latencies);

}  // namespace ashlar
