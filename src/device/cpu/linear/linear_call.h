// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the kernels' calls out of tensors and packed weights.

#include <algorithm>

#include "device/cpu/isa/kernels.h"
#include "device/cpu/linear/packed_weight.h"

namespace ashlar::cpu {

inline constexpr int64_t kPackedAlignment = 64;
/// Rows that a panel of weights meets before the next panel: they stay in L2.
inline constexpr int32_t kRowsPerPanel = 96;

inline const PackedWeight& as_packed(const Weight& weight) { return own_weight<PackedWeight>(weight); }

inline const LinearKernels& kernels_of(const Kernels& kernels, const PackedWeight& weight) {
  return weight.kernels_of(kernels);
}

/// All rows of x times all panels; nothing packed yet.
inline LinearCall whole_call(const PackedWeight& w, const LinearKernels& kernels, Tensor x, Tensor out) {
  LinearCall call;
  call.k = w.k();
  call.rows = x.rows;
  call.blocks = (x.rows + kernels.block_rows - 1) / kernels.block_rows;
  call.last_block = call.blocks;
  call.x = x.row(0);
  call.x_stride = x.stride;
  call.out_stride = out.stride;
  call.weight = w.panel(0);
  call.panels = w.panels();
  call.columns = w.gated() ? w.panels() * kPanelColumns : w.n();
  call.bias = w.bias();
  call.out = out.row(0);
  return call;
}

/// `count` panels of `call` from `first`, as far as there are any.
inline void take_panels(LinearCall& call, int64_t panel_bytes, int32_t first, int32_t count) {
  const int32_t column = first * kPanelColumns;
  call.weight = static_cast<const std::byte*>(call.weight) + first * panel_bytes;
  call.panels = std::min(count, call.panels - first);
  call.columns = std::min(call.panels * kPanelColumns, call.columns - column);
  call.bias = call.bias == nullptr ? nullptr : call.bias + column;
  call.out += column;
}

/// Bytes of a packed block, or 0 if the kernel takes these rows as they are.
inline int64_t packed_block_bytes(const LinearKernels& kernels, const LinearCall& call) {
  if ((call.rows + call.blocks - 1) / call.blocks < kernels.pack_from) return 0;
  return round_up(kernels.packed_bytes(call.k), kPackedAlignment);
}

/// What a piece of a product must know of its weight. Taken along by value: the weight itself would be a few more lines
/// to fetch for every worker and op.
struct Panels {
  const std::byte* first;
  int64_t bytes;  ///< of a panel
  const float* bias;
  int32_t columns;  ///< that exist
  void (*run)(const LinearCall& call);

  Panels(const PackedWeight& weight, const LinearKernels& kernels, int32_t columns)
      : first(weight.panel(0)), bytes(weight.panel_bytes()), bias(weight.bias()), columns(columns), run(kernels.run) {}

  /// Makes part a product with `count` panels from `index` on.
  void take(int32_t index, int32_t count, LinearCall& part) const {
    const int32_t column = index * kPanelColumns;
    part.weight = first + index * bytes;
    part.panels = count;
    part.columns = std::min(count * kPanelColumns, columns - column);
    part.bias = bias == nullptr ? nullptr : bias + column;
  }

  /// The product of part's rows with those panels.
  void multiply(int32_t index, int32_t count, LinearCall& part) const {
    take(index, count, part);
    run(part);
  }
};

/// Rough nanoseconds of one thread: the stream of weights at 20 GB/s, or the products at 50 per nanosecond.
inline int64_t linear_cost(const PackedWeight& weight, int64_t rows) {
  const int64_t stream = weight.panels() * weight.panel_bytes() / 20;
  const int64_t products = int64_t{weight.n()} * weight.k() * rows / 50;
  return std::max(stream, products);
}

}  // namespace ashlar::cpu
