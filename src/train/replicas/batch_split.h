// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which replica computes which documents of a step.

#include <cstdint>
#include <span>
#include <vector>

namespace ashlar {

/// The share, from 0, of each item: the costliest first, each to the share that has least so far; the first of equals.
/// A function of the costs alone. Shares differ by at most the cost of one item. Source: Graham, "Bounds on
/// multiprocessing timing anomalies" (1969).
std::vector<int32_t> split_evenly(std::span<const int64_t> costs, int32_t shares);

}  // namespace ashlar
