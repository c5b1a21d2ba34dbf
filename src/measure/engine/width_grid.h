// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether drafting pays, by context and by sequences that decode at once: plain decoding, every fixed width, and the
// widths that the decoder chooses, in turns in one process.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"
#include "measure/engine/bench.h"

namespace ashlar {

struct WidthGridOptions {
  std::vector<int32_t> contexts = {200, 4000, 16000};
  std::vector<int32_t> concurrency = {1, 4, 16};
  std::vector<int32_t> widths = {2, 4, 8, 16};  ///< fixed ones; those above the drafter's block are left out
  int32_t rounds = 3;
  int32_t tokens = 32;  ///< that each sequence decodes in a turn, at least
};

/// Tokens per second of all sequences of a cell together, host work included.
struct WidthGridCell {
  int32_t context = 0, sequences = 0;
  double plain = 0, chosen = 0;
  double rows = 0;            ///< mean rows of a span where the decoder chose
  std::vector<double> fixed;  ///< as WidthGrid::widths
  size_t best = 0;            ///< of them
  double best_fixed() const { return std::max(plain, fixed[best]); }
};

struct WidthGrid {
  WidthGridOptions options;
  std::vector<int32_t> widths;
  std::vector<WidthGridCell> cells;
  int64_t compared = 0, identical = 0;  ///< tokens of drafted sequences with those of plain ones
};

/// Throws Error("bench", ...) if the subject has no drafter whose width is free, or the model's context is too short.
WidthGrid run_width_grid(const BenchSubject& subject, const WidthGridOptions& options,
                         const BenchProgress& progress = {});

std::string width_grid_text(const WidthGrid& grid);
Json width_grid_json(const WidthGrid& grid);

}  // namespace ashlar
