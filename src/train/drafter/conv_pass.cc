// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/conv_pass.h"

namespace ashlar {

ConvPass::Saved ConvPass::take(TensorRoom& room, int32_t block_rows, DType factor) const {
  if (!shape_.convolutions) return {};
  return {room.take(block_rows, shape_.dynamic_width(), factor), room.take(block_rows, shape_.hidden, factor)};
}

void ConvPass::lay_out(TensorRoom& room, int32_t block_rows, DType factor) {
  if (!shape_.convolutions) {
    // A factor of products has the type that they take.
    d_output_ = factor == DType::kF32 ? Tensor{} : room.take(block_rows, shape_.hidden, factor);
    return;
  }
  convolved_ = room.take(block_rows, shape_.hidden, factor);
  d_output_ = room.take(block_rows, shape_.hidden, factor);
  d_convolved_ = room.take(block_rows, shape_.hidden);
  d_dynamic_ = room.take(block_rows, shape_.dynamic_width(), factor);
}

BlockConvolution ConvPass::side(const ConvParameters& p, int32_t index, Tensor x, const Saved& saved) const {
  const GroupedConv conv = {taps(), shape_.convolutions->group, p.base.value.row(index * taps())};
  return {x, half(saved.dynamic, index), conv, shape_.block};
}

Tensor ConvPass::enter(const ConvParameters& p, Tensor normed, const Saved& saved) {
  if (shape_.convolutions) ops_.linear(normed, p.kernel.factor, Store::kOverwrite, saved.dynamic);
  return enter_again(p, normed, saved);
}

Tensor ConvPass::enter_again(const ConvParameters& p, Tensor normed, const Saved& saved) {
  if (!shape_.convolutions) return normed;
  const Tensor convolved = convolved_.narrow(normed.rows);
  ops_.block_conv(side(p, 0, normed, saved), Store::kOverwrite, convolved);
  return convolved;
}

void ConvPass::leave(const ConvParameters& p, Tensor x, Tensor weight, const Saved& saved, Tensor stream) {
  if (!shape_.convolutions) {
    ops_.linear(x, weight, Store::kAdd, stream);
    return;
  }
  ops_.linear(x, weight, Store::kOverwrite, saved.output);
  ops_.block_conv(side(p, 1, saved.output, saved), Store::kAdd, stream);
}

Tensor ConvPass::leave_backward(const ConvParameters& p, Tensor d_stream, const Saved& saved) {
  if (d_output_.data == nullptr) return d_stream;
  const Tensor d_output = d_output_.narrow(d_stream.rows);
  if (!shape_.convolutions) {
    ops_.copy(d_stream, d_output);
    return d_output;
  }
  ops_.block_conv_gradient(d_stream, side(p, 1, saved.output, saved), d_output,
                           half(d_dynamic_.narrow(d_stream.rows), 1), d_base(p, 1));
  return d_output;
}

Tensor ConvPass::d_entered(Tensor d_normed) const {
  return shape_.convolutions ? d_convolved_.narrow(d_normed.rows) : d_normed;
}

void ConvPass::enter_backward(const ConvParameters& p, Tensor normed, const Saved& saved, int32_t first,
                              Tensor d_normed) {
  if (!shape_.convolutions) return;
  const Tensor d_dynamic = d_dynamic_.part(first, normed.rows);
  ops_.block_conv_gradient(d_convolved_.narrow(normed.rows), side(p, 0, normed, saved), d_normed, half(d_dynamic, 0),
                           d_base(p, 0));
  ops_.linear_weight_gradient(d_dynamic, normed, p.kernel.gradient);
  ops_.linear_input_gradient(d_dynamic, p.kernel.factor, Store::kAdd, d_normed);
}

}  // namespace ashlar
