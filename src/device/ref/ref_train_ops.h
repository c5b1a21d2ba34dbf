// SPDX-License-Identifier: Apache-2.0
#pragma once
// The executable specification of what training needs: loops as the formulas read, sums in double, one thread.

#include <memory>

#include "device/train_ops.h"

namespace ashlar {

std::unique_ptr<TrainOps> make_ref_train_ops();

namespace ref {

void block_attention(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums);
void block_attention_gradient(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor log_sums,
                              Tensor d_q, Tensor d_k, Tensor d_v);

}  // namespace ref
}  // namespace ashlar
