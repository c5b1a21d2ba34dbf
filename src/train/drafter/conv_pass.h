// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forward and backward of the convolutions around the sublayers of a drafter: with z the normed rows and s what the
// sublayer makes of convolved z, the residual stream grows by convolved s, and a product of z gives both convolutions
// what their weights have of the row's own. Without convolutions a sublayer stands alone, by the same calls. Source:
// DFlash2 (z-lab/dflash).

#include "device/tensor_room.h"
#include "train/drafter/drafter_parameters.h"

namespace ashlar {

class ConvPass {
 public:
  ConvPass(TrainOps& ops, const TrainShape& shape) : ops_(ops), shape_(shape) {}

  /// What a sublayer's backward needs of its forward: [block rows, ...], or nothing.
  struct Saved {
    Tensor dynamic;  ///< [block rows, 2 * taps * groups]: of the side that enters, then of the one that leaves
    Tensor output;   ///< [block rows, hidden]: of the sublayer
    Saved part(int32_t first, int32_t n) const {
      return dynamic.rows == 0 ? *this : Saved{dynamic.part(first, n), output.part(first, n)};
    }
  };
  Saved take(TensorRoom& room, int32_t block_rows, DType factor) const;
  /// What all sublayers share.
  void lay_out(TensorRoom& room, int32_t block_rows, DType factor);

  /// Of whole blocks' normed rows what enters the sublayer: valid until the next call.
  Tensor enter(const ConvParameters& p, Tensor normed, const Saved& saved);
  /// The same in a backward.
  Tensor enter_again(const ConvParameters& p, Tensor normed, const Saved& saved);
  /// stream += x weight^T, the sublayer's last product.
  void leave(const ConvParameters& p, Tensor x, Tensor weight, const Saved& saved, Tensor stream);

  /// The gradient of that product's result, of d_stream, in the type that products take; valid until the next call.
  Tensor leave_backward(const ConvParameters& p, Tensor d_stream, const Saved& saved);
  /// Where the gradient of what enters goes, of n rows that will be normed rows' d_normed.
  Tensor d_entered(Tensor d_normed) const;
  /// d_normed of that. `first`: of these rows among those of leave_backward().
  void enter_backward(const ConvParameters& p, Tensor normed, const Saved& saved, int32_t first, Tensor d_normed);

 private:
  BlockConvolution side(const ConvParameters& p, int32_t index, Tensor x, const Saved& saved) const;
  float* d_base(const ConvParameters& p, int32_t index) const { return p.base.gradient.row(index * taps()); }
  int32_t taps() const { return shape_.convolutions->taps; }
  Tensor half(Tensor dynamic, int32_t index) const {
    return dynamic.columns(index * dynamic.cols / 2, dynamic.cols / 2);
  }

  TrainOps& ops_;
  const TrainShape& shape_;
  Tensor convolved_, d_output_;  // [block rows, hidden]
  Tensor d_convolved_;           // [block rows, hidden]
  Tensor d_dynamic_;             // [block rows, 2 * taps * groups]
};

}  // namespace ashlar
