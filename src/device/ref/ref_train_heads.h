// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ops of TrainOps that train drafters' heads, on the reference device.

#include "device/train_ops.h"

namespace ashlar::ref {

void candidate_loss(const ChoosingRows& rows, TokenLoss* losses);
void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out);
void block_conv(const BlockConvolution& rows, Store store, Tensor out);
void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic, float* d_base);
void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table);

}  // namespace ashlar::ref
