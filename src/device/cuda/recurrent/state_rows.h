// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of sequences and the states of recurrent layers that they go through, as kernels are given them.

#include <cstdint>

namespace ashlar::cuda {

/// As ashlar::StateSpan lies in memory.
struct Save {
  int32_t row, snapshot;
};
struct Span {
  int32_t slot, replays, choices;
  Save saves[2];
};

/// Rows and the states that they go through, as Rows and StatePlane of device/rows.h.
struct StateRows {
  int32_t rows = 0;
  const int32_t *positions = nullptr, *tables = nullptr;
  const Span* spans = nullptr;
  char* states = nullptr;
  int64_t state_stride = 0, log_stride = 0;
  int32_t slots = 0, log_rows = 0;
};

}  // namespace ashlar::cuda
