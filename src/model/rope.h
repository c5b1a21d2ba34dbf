// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "device/ops.h"
#include "model/config.h"

namespace ashlar {

/// Throws Error("config", ...) naming `folder` if the tables for `max_positions` would be larger than a gibibyte. To be
/// asked before weights are loaded: a length of millions is easily written into a config.json.
void check_rope_size(const std::filesystem::path& folder, const StackConfig& stack, int32_t max_positions);

/// Cosines and sines for positions [0, max_positions) in device memory, scaling included, and what queries grow by.
/// Sources: the rope initialisers of Hugging Face transformers; for yarn Peng et al. 2023 (arXiv 2309.00071).
class Rope {
 public:
  Rope(Ops& ops, const RopeConfig& config, int32_t head_dim, int32_t max_positions);
  const RopeTable& table() const { return table_; }

 private:
  // cos then sin, each [max_positions, rotary_dim / 2]; then, if queries have factors, [max_positions]
  std::unique_ptr<Buffer> storage_;
  RopeTable table_;
};

/// The tables that the layers of a stack need, each once.
class Ropes {
 public:
  Ropes(Ops& ops, const StackConfig& stack, int32_t max_positions);
  const RopeTable& of_layer(int32_t layer) const { return tables_[of_layer_[layer]].table(); }
  static int64_t bytes_per_position(const StackConfig& stack);

 private:
  std::vector<Rope> tables_;
  std::vector<size_t> of_layer_;
};

}  // namespace ashlar
