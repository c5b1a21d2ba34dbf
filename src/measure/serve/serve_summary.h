// SPDX-License-Identifier: Apache-2.0
#pragma once
// Figures of a level of load.

#include <map>
#include <string>
#include <vector>

#include "measure/serve/serve_load.h"

namespace ashlar {

/// Limits that a request must keep to count for goodput, in milliseconds; 0: none.
struct LatencyGoals {
  double ttft_ms = 0;
  double itl_ms = 0;
  bool any() const { return ttft_ms > 0 || itl_ms > 0; }
};

/// Of one latency over requests (or chunks), in milliseconds; all 0 of nothing.
struct Spread {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};

struct LevelSummary {
  LoadLevel level;
  double seconds = 0;
  int64_t requests = 0, completed = 0;          ///< all figures below are of completed ones
  std::map<std::string, int64_t> errors;        ///< by kind
  std::map<std::string, std::string> examples;  ///< a detail for each kind
  Spread ttft;                                  ///< to the first chunk with text
  Spread itl;    ///< (last - first chunk) / (tokens - 1) of each request of two tokens and two chunks or more
  Spread gap;    ///< between one chunk and the next, whatever they carry
  Spread whole;  ///< to the end of the stream
  int64_t prompt_tokens = 0, tokens = 0, chunks = 0;
  bool tokens_reported = true;  ///< false: some answer had no usage, and its chunks were counted
  double requests_per_s = 0, tokens_per_s = 0;
  int64_t good = 0;  ///< completed requests that kept all goals
  double good_per_s = 0;
  bool drafting_reported = false;
  int64_t drafted = 0, accepted = 0;

  double tokens_per_chunk() const { return chunks > 0 ? static_cast<double>(tokens) / static_cast<double>(chunks) : 0; }
};

LevelSummary summarize(const LevelRun& run, const LatencyGoals& goals);

}  // namespace ashlar
