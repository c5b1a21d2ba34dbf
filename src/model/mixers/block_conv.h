// SPDX-License-Identifier: Apache-2.0
#pragma once
// Convolutions around a sublayer of a drafter's layer, which let neighbouring rows of a block know of each other.
// Source: DFlash2 (z-lab/dflash).

#include <memory>
#include <string>

#include "device/ops.h"
#include "model/binding/weight_binder.h"
#include "model/config.h"

namespace ashlar {

/// Activations that the convolutions of a stack share.
struct ConvWorkspace {
  Tensor normed;     ///< [max_rows, hidden]
  Tensor convolved;  ///< [max_rows, hidden]: what enters a sublayer
  Tensor added;      ///< [max_rows, hidden]: what it adds
  Tensor dynamic;    ///< [max_rows, dynamic_width()]
  Tensor zeros;      ///< [max_rows, hidden], every row the same one
};

/// With z the normed rows and s what the sublayer makes of convolved z, the residual stream grows by convolved s. Both
/// convolutions have weights of their own and a part that one product makes of z for both.
class BlockConv {
 public:
  /// Binds BASE [2, taps, hidden] and KERNEL.weight [2 * taps * groups, hidden]: the sublayer's input first, then its
  /// output.
  BlockConv(WeightBinder& binder, const std::string& base, const std::string& kernel, const BlockConvConfig& config,
            int32_t hidden);

  static int32_t dynamic_width(const BlockConvConfig& config, int32_t hidden) {
    return 2 * config.taps * (hidden / config.group);
  }
  size_t bytes() const { return projection_->bytes(); }

  /// x += the sublayer between both convolutions. sublayer(in, added) adds to `added`. in, x: [rows.n, hidden].
  template <class Sublayer>
  void around(Ops& ops, const Rows& rows, const Input& in, const ConvWorkspace& workspace, Tensor x,
              const Sublayer& sublayer) const {
    const Tensor added = workspace.added.narrow(rows.n);
    sublayer(Input(enter(ops, rows, in, workspace)), added);
    leave(ops, rows, workspace, x);
  }

 private:
  Tensor enter(Ops& ops, const Rows& rows, const Input& in, const ConvWorkspace& workspace) const;
  void leave(Ops& ops, const Rows& rows, const ConvWorkspace& workspace, Tensor x) const;
  GroupedConv side(int32_t index) const;

  BlockConvConfig config_;
  int32_t hidden_;
  DeviceVector base_;
  std::unique_ptr<Weight> projection_;
};

}  // namespace ashlar
