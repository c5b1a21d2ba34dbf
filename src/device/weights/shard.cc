// SPDX-License-Identifier: Apache-2.0
#include "device/weights/shard.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace ashlar {
namespace {

/// Of `found` rows or columns, those of one rank, in whole units.
int64_t share_of(const WeightPart& part, const char* dimension, int64_t found, int64_t unit, int32_t world) {
  const int64_t multiple = unit * world;
  if (found % multiple == 0) return found / world;
  throw Error("weights", "tensor " + std::string(part.name) + ": cannot be cut among " + std::to_string(world) +
                             " ranks: expected a multiple of " + std::to_string(multiple) + " " + dimension +
                             (unit > 1 ? " (groups of " + std::to_string(unit) + ")" : "") + ", found " +
                             std::to_string(found));
}

}  // namespace

WeightSource cut(const WeightSource& source, const Shard& shard) {
  ASHLAR_CHECK(shard.rank >= 0 && shard.rank < shard.world);
  WeightSource out;
  auto bias = source.bias.begin();
  for (const WeightPart& part : source.parts) {
    int64_t row = 0;
    int64_t rows = part.rows;
    if (shard.axis == Shard::Axis::kOutputs) {
      rows = share_of(part, "outputs", part.rows, std::max<int64_t>(1, part.values.interleaved.head), shard.world);
      row = shard.rank * rows;
      out.parts.push_back(part.block(row, rows, 0, part.cols));
    } else {
      const int64_t cols = share_of(part, "inputs", part.cols, part.values.group, shard.world);
      out.parts.push_back(part.block(0, rows, shard.rank * cols, cols));
    }
    if (source.bias.empty()) continue;
    if (shard.axis == Shard::Axis::kOutputs || shard.rank == 0) {
      out.bias.insert(out.bias.end(), bias + row, bias + row + rows);
    }
    bias += part.rows;
  }
  return out;
}

}  // namespace ashlar
