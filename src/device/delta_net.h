// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gated delta net of a layer: what its op is given, and how its state lies in memory. Source: Yang et al. 2024
// (arXiv 2412.06464), with the short convolution and the gates of Qwen3-Next.

#include <cstdint>

#include "device/rows.h"

namespace ashlar {

/// Geometry. Value head h reads key head h / (n_v_heads / n_k_heads).
struct DeltaShape {
  int32_t n_k_heads = 0;
  int32_t n_v_heads = 0;  ///< a multiple of n_k_heads
  int32_t k_dim = 0;
  int32_t v_dim = 0;
  int32_t taps = 0;  ///< of the convolution over each channel: the row itself and the taps - 1 rows before it
  /// Value heads lie in the op's output by turns: the first of each key head, then the second of each, and so on.
  bool outputs_by_turns = false;

  int32_t k_width() const { return n_k_heads * k_dim; }
  int32_t v_width() const { return n_v_heads * v_dim; }
  int32_t v_heads_of_k() const { return n_v_heads / n_k_heads; }
  /// Where the answer of value head `head` lies among those of all.
  int32_t output_head(int32_t head) const {
    return outputs_by_turns ? head % v_heads_of_k() * n_k_heads + head / v_heads_of_k() : head;
  }
  /// What is convolved: queries, keys, values.
  int32_t channels() const { return 2 * k_width() + v_width(); }
  /// Columns of the op's input: the channels, z [v_width], b [n_v_heads], a [n_v_heads].
  int32_t projected_width() const { return channels() + v_width() + 2 * n_v_heads; }

  // In floats, on every device. A state is a matrix [k_dim, v_dim] for each value head, and the inputs of the last
  // taps - 1 rows to the convolution, oldest first. A row of the log is what the row did to the state: its input to the
  // convolution [channels], its keys as they were used [k_width], what it added at them [v_width], and by what it
  // multiplied [n_v_heads].
  int64_t matrices() const { return int64_t{n_v_heads} * k_dim * v_dim; }
  int64_t state_floats() const { return matrices() + int64_t{taps - 1} * channels(); }
  int64_t log_floats() const { return int64_t{channels()} + k_width() + v_width() + n_v_heads; }
  bool operator==(const DeltaShape&) const = default;
};

/// The weights of a layer, in device memory.
struct DeltaWeights {
  const float* taps = nullptr;   ///< [taps, channels], that of the row itself last
  const float* decay = nullptr;  ///< [n_v_heads]: -exp(A_log)
  const float* bias = nullptr;   ///< [n_v_heads]: added to a
  const float* norm = nullptr;   ///< [v_dim]
  float eps = 0;
};

/// Of a forward: whose rows, and where their states lie. Rows of a sequence are consecutive.
struct DeltaNet {
  const DeltaShape& shape;
  DeltaWeights weights;
  const Rows& rows;
  StatePlane states;
};

}  // namespace ashlar
