// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cutting a weight among ranks, before it is packed.

#include "device/weights/weight_source.h"

namespace ashlar {

/// Which of `world` even parts of a weight a rank holds.
struct Shard {
  /// kOutputs: rows, of each part by itself, so that a rank's queries, keys and values (or gates and ups) stay
  /// together. A product gives the rank's columns of the whole one. kInputs: columns; products of the ranks, each with
  /// its columns of what enters, are partial results, which Ops::reduce_add sums.
  enum class Axis : uint8_t { kOutputs, kInputs };

  int32_t rank = 0;
  int32_t world = 1;
  Axis axis = Axis::kOutputs;
};

/// The rank's share, as views of the same memory. Its bias is that of its outputs; of a weight cut along its inputs
/// rank 0 has the whole bias and the others none, so that it is added once. Throws Error("weights", ...) where a
/// dimension does not divide, or where a cut would lie inside a group of numbers that are stored together.
WeightSource cut(const WeightSource& source, const Shard& shard);

}  // namespace ashlar
