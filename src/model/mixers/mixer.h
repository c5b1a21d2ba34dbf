// SPDX-License-Identifier: Apache-2.0
#pragma once
// The first half of a decoder layer: what mixes the rows of a sequence, such as attention.

#include <memory>
#include <string>

#include "cache/layout.h"
#include "device/ops.h"
#include "model/row_batch.h"

namespace ashlar {

/// Scratch that the mixers of a stack share, each of them in its turn.
struct MixerWorkspace {
  Tensor projected;  ///< [max_rows, widest projected_width()]
  Tensor mixed;      ///< [max_rows, widest mixed_width()]
};

/// What a mixer reads in one forward.
struct MixerCall {
  const RowBatch& batch;
  Input in;  ///< [batch.n(), hidden], with the layer's norm
  const KvMemory& memory;
  MixerWorkspace workspace;
  Visibility visible;  ///< of every row, in this layer
  Tensor copy;         ///< if it has rows, those of `in` go there too, as they came
};

class Mixer {
 public:
  virtual ~Mixer() = default;
  /// Columns of scratch that a row needs.
  virtual int32_t projected_width() const = 0;
  virtual int32_t mixed_width() const = 0;
  virtual size_t bytes() const = 0;  ///< of weights
  /// Whether a row depends on a state that all rows before it made, instead of on what each of them left. Then the rows
  /// of a sequence are one chain, and each sees what is before it.
  virtual bool is_recurrent() const { return false; }

  /// Registers what the mixer keeps of a sequence under `name`. Called once, before any forward.
  virtual void register_state(KvLayout& layout, const std::string& name, Ops& ops) = 0;

  /// x[r] += mixer(in)[r], and what later rows need of all rows goes to the memory. x: [batch.n(), hidden], may be the
  /// rows of `in`.
  virtual void forward(Ops& ops, const MixerCall& call, Tensor x) const = 0;
  /// The same where only the batch's outputs are wanted: x is [batch.n_outputs(), hidden] and holds their residual
  /// stream, which `in` does not share memory with.
  virtual void forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const = 0;

  /// Makes what a branch's rows left in scratch slots part of its sequence.
  virtual void commit(Ops& ops, const KvMemory& memory, const BranchTable& branch, const int32_t* pages) const = 0;
};

}  // namespace ashlar
