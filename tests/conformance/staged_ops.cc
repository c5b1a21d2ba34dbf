// SPDX-License-Identifier: Apache-2.0
#include "staged_ops.h"

#include <cstring>

#include "staged_arguments.h"

namespace ashlar::conformance {

std::unique_ptr<Buffer> StagedOps::allocate(size_t bytes) { return std::make_unique<TwinBuffer>(*this, bytes); }

void StagedOps::embed(const Weight& table, const int32_t* ids, float scale, Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  inner_->embed(table, staged(*inner_, ids, out.rows).device(), scale, to.device());
  to.fetch();
}

void StagedOps::rms_norm(Tensor x, const float* weight, float eps, Tensor out) {
  StagedTensor from(*inner_, x, activation_type()), to(*inner_, out, activation_type());
  const bool in_place = x.data == out.data;
  inner_->rms_norm(in_place ? to.device() : from.device(), staged(*inner_, weight, x.cols).device(), eps, to.device());
  to.fetch();
}

void StagedOps::linear(const Weight& weight, Input in, Store store, Tensor out) {
  const StagedTensor x(*inner_, in.x, activation_type());
  StagedTensor to(*inner_, out, store == Store::kAdd ? activation_type() : DType::kF32);
  const auto norm = staged(*inner_, in.norm, in.x.cols);
  inner_->linear(weight, {x.device(), norm.device(), in.eps}, store, to.device());
  to.fetch();
}

void StagedOps::linear_argmax(const Weight& weight, Tensor x, int32_t* ids) {
  auto to = staged(*inner_, ids, x.rows);
  inner_->linear_argmax(weight, StagedTensor(*inner_, x, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) {
  auto to = staged(*inner_, out, x.rows);
  inner_->linear_statistics(weight, StagedTensor(*inner_, x, activation_type()).device(), without, to.device());
  to.fetch();
}

void StagedOps::gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) {
  const StagedTensor x(*inner_, in.x, activation_type());
  StagedTensor to(*inner_, out, activation_type());
  const auto norm = staged(*inner_, in.norm, in.x.cols);
  const Tensor from = in.x.data == out.data ? to.device() : x.device();
  inner_->gated_mlp(gate_up, down, {from, norm.device(), in.eps}, to.device());
  to.fetch();
}

void StagedOps::reduce_add(Tensor partial, Tensor residual) {
  StagedTensor to(*inner_, residual, activation_type());
  inner_->reduce_add(StagedTensor(*inner_, partial, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) {
  const int64_t n = int64_t{logits.rows} * routes.top_k;
  auto experts = staged(*inner_, routes.experts, n);
  auto weights = staged(*inner_, routes.weights, n);
  const auto bias = staged(*inner_, factors.bias, logits.cols), scale = staged(*inner_, factors.scale, logits.cols);
  inner_->route(StagedTensor(*inner_, logits, DType::kF32).device(), {bias.device(), scale.device()}, routing,
                {routes.top_k, experts.device(), weights.device()});
  experts.fetch();
  weights.fetch();
}

void StagedOps::mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) {
  const int64_t n = int64_t{x.rows} * routes.top_k;
  const auto chosen = staged(*inner_, routes.experts, n);
  const auto weights = staged(*inner_, routes.weights, n);
  StagedTensor to(*inner_, out, activation_type());
  inner_->mix_experts(experts, StagedTensor(*inner_, x, activation_type()).device(),
                      {routes.top_k, chosen.device(), weights.device()}, to.device());
  to.fetch();
}

void StagedOps::store_kv(Tensor qkv, const KvStore& to) {
  StagedTensor rows(*inner_, qkv, activation_type());
  StagedPlane plane(*this, to.plane);
  const StagedRows list(*inner_, to.rows, nullptr);
  const auto q_norm = staged(*inner_, to.q_norm, to.shape.head_dim);
  const auto k_norm = staged(*inner_, to.k_norm, to.shape.head_dim);
  const int64_t angles = int64_t{to.rope.max_position} * (to.rope.rotary_dim / 2);
  const auto cos = staged(*inner_, to.rope.cos, angles);
  const auto sin = staged(*inner_, to.rope.sin, angles);
  const auto scales = staged(*inner_, to.rope.query_scales, to.rope.max_position);
  const RopeTable rope = {cos.device(), sin.device(), to.rope.rotary_dim, to.rope.max_position, scales.device()};
  inner_->store_kv(rows.device(),
                   {to.shape, q_norm.device(), k_norm.device(), to.eps, rope, list.rows, plane.device()});
  rows.fetch();
  plane.fetch();
}

void StagedOps::commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                          KvPlane plane) {
  StagedPlane pages(*this, plane);
  const auto slots = staged(*inner_, branch.slots, branch.n);
  const auto table = staged(*inner_, page_table, (branch.end() + kPageTokens - 1) / kPageTokens);
  inner_->commit_kv(shape, {branch.first, branch.n, slots.device()}, table.device(), pages.device());
  pages.fetch();
}

void StagedOps::attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                          Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  const StagedPlane pages(*this, plane);
  const StagedRows list(*inner_, rows, visible.end);
  const auto begin = staged(*inner_, visible.begin, rows.n);
  const auto end = staged(*inner_, visible.end, rows.n);
  const auto sinks = staged(*inner_, shape.sinks, shape.n_heads);
  AttentionShape staged_shape = shape;
  staged_shape.sinks = sinks.device();
  inner_->attention(StagedTensor(*inner_, q, activation_type()).device(), staged_shape, list.rows,
                    {begin.device(), end.device()}, pages.device(), to.device());
  to.fetch();
}

void StagedOps::sigmoid_gate(Tensor gate, Tensor x) {
  StagedTensor to(*inner_, x, activation_type());
  inner_->sigmoid_gate(StagedTensor(*inner_, gate, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::gelu_gate(Tensor gate, Tensor x) {
  StagedTensor to(*inner_, x, activation_type());
  inner_->gelu_gate(StagedTensor(*inner_, gate, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::gather_rows(Tensor x, const int32_t* indices, Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  inner_->gather_rows(StagedTensor(*inner_, x, activation_type()).device(), staged(*inner_, indices, out.rows).device(),
                      to.device());
  to.fetch();
}

void StagedOps::copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) {
  StagedTensor destination(*inner_, out, activation_type());
  inner_->copy_rows(StagedTensor(*inner_, x, activation_type()).device(), staged(*inner_, from, n).device(),
                    staged(*inner_, to, n).device(), n, destination.device());
  destination.fetch();
}

void StagedOps::copy(Tensor x, Tensor out) {
  StagedTensor to(*inner_, out, activation_type());
  inner_->copy(StagedTensor(*inner_, x, activation_type()).device(), to.device());
  to.fetch();
}

void StagedOps::visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) {
  auto to_begin = staged(*inner_, begin, rows.n), to_end = staged(*inner_, end, rows.n);
  inner_->visibility(StagedRows(*inner_, rows, nullptr).rows, window, causal, to_begin.device(), to_end.device());
  to_begin.fetch();
  to_end.fetch();
}

void StagedOps::scale(Tensor x, float factor) {
  StagedTensor to(*inner_, x, activation_type());
  inner_->scale(to.device(), factor);
  to.fetch();
}

void StagedOps::softcap(Tensor x, float limit) {
  StagedTensor to(*inner_, x, DType::kF32);
  inner_->softcap(to.device(), limit);
  to.fetch();
}

void StagedOps::choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  inner_->choose(StagedTensor(*inner_, logits, DType::kF32).device(), requests, choices);
}

void StagedOps::copy_bytes(const std::byte* from, std::byte* to, size_t bytes) { std::memcpy(to, from, bytes); }
void StagedOps::upload(const void* from, std::byte* to, size_t bytes) { std::memcpy(to, from, bytes); }
void StagedOps::download(const std::byte* from, void* to, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace ashlar::conformance
