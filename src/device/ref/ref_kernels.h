// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inner loops of the reference device, each written the way its formula reads.

#include "device/delta_net.h"
#include "device/draft_heads.h"
#include "device/routing.h"
#include "device/rows.h"
#include "device/short_conv.h"

namespace ashlar::ref {

/// Sum of a[i] * b[i], accumulated in double so that the specification itself adds no order-dependent error.
float dot(const float* a, const float* b, int32_t n);

/// Outputs of a product that are computed side by side: the chains of one would wait for themselves.
constexpr int32_t kTogether = 4;

/// out[j] = dot(x, rows + j * n, n) for j in [0, kTogether), with the bits of dot, of numbers that were widened before.
void few_dots(const double* x, const double* rows, int32_t n, float* out);

void widen(const float* from, int64_t n, double* to);

void rms_norm(const float* x, const float* weight, int32_t n, float eps, float* out);

/// Experts and weights of one row with logits [n], as routing.h says.
void route(const float* logits, const ExpertFactors& factors, int32_t n, const Routing& routing, int32_t* experts,
           float* weights);

/// Ops::gated_delta_net.
void gated_delta_net(Tensor in, const DeltaNet& net, Tensor out);
/// Ops::short_conv.
void short_conv(Tensor in, const ShortConv& conv, Tensor out);

/// The ops of the same names.
void grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, bool add, Tensor out);
void find_candidates(Tensor logits, Candidates out);
void score_edges(const CandidateEdges& edges, Tensor out);
void candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out);

}  // namespace ashlar::ref
