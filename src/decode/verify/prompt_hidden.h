// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hidden states of a prompt's rows, for requests that ask for them: they are copied from the target's forward next to
// those that the drafter reads, so that there is one forward for both.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/step.h"
#include "device/ops.h"
#include "model/layer_stack.h"

namespace ashlar {

class PromptHidden {
 public:
  /// `layers`: in the order that rows report them in. `hidden`: numbers of a layer.
  PromptHidden(std::span<const int32_t> layers, int32_t hidden);

  /// Makes room for steps of up to `max_rows` rows. `drafter`: what is copied for the drafter in such a step, to
  /// `drafter_width` columns.
  void start(Ops& ops, int32_t max_rows, std::span<const AuxLayer> drafter, int32_t drafter_width);

  HiddenRow row(DType type) const { return {n_layers_, hidden_, type}; }
  /// For the forward of a step in which rows report; nothing has been taken of it yet.
  AuxHiddenRequest request();
  /// The drafter's columns after that forward: [max_rows, drafter_width].
  Tensor of_drafter() const { return all_.columns(width(), all_.cols - width()); }
  /// Has `n` rows of the forward reported, from `first` on. Returns which row of download()'s bytes the first of them
  /// is.
  int32_t take(Ops& ops, int32_t first, int32_t n);
  /// Sets `to` to the rows taken since request(), one after another, once they are there. Nothing was taken: nothing.
  void download(Ops& ops, std::span<std::byte> to);

 private:
  int32_t width() const { return n_layers_ * hidden_; }

  int32_t n_layers_, hidden_;
  std::vector<AuxLayer> layers_;  // ascending by layer: those that are reported, and the drafter's
  std::unique_ptr<Buffer> storage_;
  Tensor all_;    // [max_rows, width + drafter_width]: of a forward's rows
  Tensor taken_;  // [max_rows, width]: of those that report, without gaps
  int32_t n_taken_ = 0;
};

}  // namespace ashlar
