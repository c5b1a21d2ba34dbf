// SPDX-License-Identifier: Apache-2.0
// Convolutions, candidates and edges of drafters' heads, and attention among candidates.

#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {
void CudaOps::grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                           Tensor out) {
  ASHLAR_CHECK_EQ(x.cols % conv.group, 0);
  ASHLAR_CHECK_EQ(dynamic.cols, conv.taps * (x.cols / conv.group));
  if (x.rows == 0) return;
  cuda::grouped_conv(memory_.stream(), {matrix_of(x), matrix_of(dynamic), matrix_of(out), conv.taps, conv.group,
                                        conv.base, tables, store == Store::kAdd});
  check_launch("grouped_conv");
}

void CudaOps::find_candidates(Tensor logits, Candidates out) {
  static_assert(kMaxCandidates <= kMaxHighest);
  ASHLAR_CHECK(logits.dtype == DType::kF32);
  if (logits.rows == 0) return;
  cuda::find_candidates(memory_.stream(), matrix_of(logits), out.n, answers_.reserve(highest_bytes(logits.rows)),
                        out.ids, out.logits);
  check_launch("find_candidates");
}

void CudaOps::score_edges(const CandidateEdges& edges, Tensor out) {
  const int32_t n = edges.candidates.n;
  ASHLAR_CHECK(out.cols == n * n && out.dtype == DType::kF32);
  if (out.rows == 0) return;
  cuda::score_edges(memory_.stream(),
                    {n, edges.candidates.logits, edges.begins, matrix_of(edges.anchors), matrix_of(edges.before),
                     matrix_of(edges.after), matrix_of(edges.hidden), matrix_of(out), edges.scale});
  check_launch("score_edges");
}

void CudaOps::candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) {
  ASHLAR_CHECK(qkv.rows == out.rows && qkv.cols == 3 * out.cols && out.cols % call.heads == 0);
  ASHLAR_CHECK_LE((call.reach + 1) * call.n, cuda::kMaxBlockCandidates);
  if (out.rows == 0) return;
  cuda::candidate_attention(memory_.stream(), {call.n, call.heads, call.reach, call.bias, call.first, call.end,
                                               matrix_of(qkv), matrix_of(out)});
  check_launch("candidate_attention");
}

}  // namespace ashlar::cuda
