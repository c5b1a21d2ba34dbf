// SPDX-License-Identifier: Apache-2.0
// Gated short convolutions: a piece of work is some channels of a sequence, through all of its rows.

#include <algorithm>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/linear/linear_call.h"

namespace ashlar::cpu {
namespace {

constexpr int32_t kChannels = 64;  // of a piece

// Products b * x of the rows before, oldest first.
struct Window {
  float rows[kMaxShortConvTaps - 1][kChannels];
  int32_t before, n;  // rows, channels

  void push(const float* newest) {
    if (before == 0) return;
    for (int32_t t = 0; t + 1 < before; ++t) std::copy_n(rows[t + 1], n, rows[t]);
    std::copy_n(newest, n, rows[before - 1]);
  }
  void copy_to(std::byte* state, int32_t channels, int32_t first) const {
    for (int32_t t = 0; t < before; ++t) {
      std::copy_n(rows[t], n, reinterpret_cast<float*>(state) + int64_t{t} * channels + first);
    }
  }
};

void run_piece(Tensor in, const ShortConv& conv, Tensor out, int32_t first_row, int32_t n_rows, int32_t first) {
  const int32_t channels = conv.shape.channels;
  const StatePlane& plane = conv.states;
  const StateSpan& span = conv.rows.states[conv.rows.tables[first_row]];
  const bool begins = conv.rows.positions[first_row] == 0;
  Window window;
  window.before = conv.shape.taps - 1;
  window.n = std::min(kChannels, channels - first);
  const auto* const state = reinterpret_cast<const float*>(plane.state(span.slot));
  for (int32_t t = 0; t < window.before; ++t) {
    for (int32_t c = 0; c < window.n; ++c) window.rows[t][c] = begins ? 0.0F : state[int64_t{t} * channels + first + c];
  }
  for (int32_t i = 0; i < span.replays && !begins; ++i) {
    window.push(reinterpret_cast<const float*>(plane.log(span.slot, i)) + first);
  }
  const int32_t kept = n_rows - span.logged(n_rows);
  const float* const taps = conv.taps + first;
  float row[kChannels], sum[kChannels];
  for (int32_t r = 0; r < n_rows; ++r) {
    if (r == kept) window.copy_to(plane.state(span.slot), channels, first);
    const float* const b = in.row(first_row + r) + first;
    float* const to = out.row(first_row + r) + first;
    for (int32_t c = 0; c < window.n; ++c) {
      row[c] = b[c] * b[2 * channels + c];
      sum[c] = conv.bias != nullptr ? conv.bias[first + c] : 0.0F;
    }
    for (int32_t t = 0; t < window.before; ++t) {
      for (int32_t c = 0; c < window.n; ++c) sum[c] += taps[int64_t{t} * channels + c] * window.rows[t][c];
    }
    for (int32_t c = 0; c < window.n; ++c) {
      to[c] = b[channels + c] * (sum[c] + taps[int64_t{window.before} * channels + c] * row[c]);
    }
    window.push(row);
    if (r >= kept) std::copy_n(row, window.n, reinterpret_cast<float*>(plane.log(span.slot, r - kept)) + first);
    for (const StateSpan::Save& save : span.saves) {
      if (save.row == r) window.copy_to(plane.snapshot(save.snapshot), channels, first);
    }
  }
}

}  // namespace

void CpuOps::short_conv(Tensor in, const ShortConv& conv, Tensor out) {
  const ShortConvShape& shape = conv.shape;
  ASHLAR_CHECK(in.cols == shape.projected_width() && out.cols == shape.channels && shape.taps <= kMaxShortConvTaps);
  ASHLAR_CHECK(in.rows == conv.rows.n && out.rows == conv.rows.n);
  find_sequences(conv.rows, conv.states);
  const int32_t chunks = (shape.channels + kChannels - 1) / kChannels;
  const auto pieces = static_cast<int32_t>(sequences_.size()) / 2 * chunks;
  const auto piece = [&](int32_t item, int32_t) {
    const int32_t* const sequence = sequences_.data() + item / chunks * 2;
    run_piece(in, conv, out, sequence[0], sequence[1], item % chunks * kChannels);
  };
  if (int64_t{in.rows} * shape.channels * shape.taps / 4 >= kWorthSharing) return pool_.run(pieces, piece);
  for (int32_t item = 0; item < pieces; ++item) piece(item, 0);
}

}  // namespace ashlar::cpu
