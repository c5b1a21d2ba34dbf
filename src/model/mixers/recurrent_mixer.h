// SPDX-License-Identifier: Apache-2.0
#pragma once
// What mixers with a state have in common: a product makes what goes through the state, another what comes out of it.

#include "model/binding/weight_binder.h"
#include "model/mixers/mixer.h"

namespace ashlar {

class RecurrentMixer : public Mixer {
 public:
  int32_t projected_width() const final { return projected_width_; }
  int32_t mixed_width() const final { return mixed_width_; }
  size_t bytes() const final { return in_->bytes() + output_->bytes(); }
  bool is_recurrent() const final { return true; }
  void register_state(KvLayout& layout, const std::string& name, Ops& ops) final;
  void forward(Ops& ops, const MixerCall& call, Tensor x) const final;
  void forward_outputs(Ops& ops, const MixerCall& call, Tensor x) const final;
  /// Drafts over a recurrent layer are a chain: there is nothing to copy.
  void commit(Ops&, const KvMemory&, const BranchTable&, const int32_t*) const final {}

 protected:
  /// Columns of the first product, and of what comes out of the state; floats of the state of a sequence, and of a row
  /// of its log.
  struct Sizes {
    int32_t projected, mixed;
    int64_t state_floats, log_floats;
  };
  explicit RecurrentMixer(const Sizes& sizes)
      : projected_width_(sizes.projected),
        mixed_width_(sizes.mixed),
        state_floats_(sizes.state_floats),
        log_floats_(sizes.log_floats) {}

  /// The products: [projected, hidden] and [hidden, mixed].
  void bind(std::unique_ptr<Weight> in, std::unique_ptr<Weight> output);

 private:
  /// Sends rows through their sequences' states. projected: [rows.n, projected_width()], mixed: [rows.n,
  /// mixed_width()].
  virtual void step(Ops& ops, Tensor projected, const Rows& rows, const StatePlane& states, Tensor mixed) const = 0;
  Tensor mix(Ops& ops, const MixerCall& call) const;

  int32_t projected_width_, mixed_width_;
  int64_t state_floats_, log_floats_;
  std::unique_ptr<Weight> in_, output_;
  int32_t state_ = -1;
};

}  // namespace ashlar
