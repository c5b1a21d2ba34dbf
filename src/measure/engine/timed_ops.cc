// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/timed_ops.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"

namespace ashlar {
namespace {

int64_t bytes_of(Tensor tensor) {
  return int64_t{tensor.rows} * tensor.cols * static_cast<int64_t>(bytes_of(tensor.dtype));
}

int64_t bytes_of(const Weight& weight) { return static_cast<int64_t>(weight.bytes()); }

std::string named(const char* op, const Weight& weight) {
  return std::string(op) + " " + std::to_string(weight.k()) + " -> " + std::to_string(weight.n());
}

int64_t products(int64_t rows, const Weight& weight) { return 2 * rows * weight.n() * weight.k(); }

OpCall product(const char* op, const Weight& weight, Tensor in, int64_t written) {
  return {named(op, weight), bytes_of(weight) + bytes_of(in), written, products(in.rows, weight)};
}

/// An op that reads some tensors and writes one.
OpCall move(const char* op, std::initializer_list<Tensor> read, Tensor written) {
  OpCall call{op};
  for (const Tensor& tensor : read) call.read += bytes_of(tensor);
  call.written = bytes_of(written);
  return call;
}

// As many as are met if each row chose without preference.
int64_t distinct_experts(int64_t experts, int64_t top_k, int64_t rows) {
  const double missed = 1 - static_cast<double>(top_k) / static_cast<double>(experts);
  return std::llround(static_cast<double>(experts) * (1 - std::pow(missed, static_cast<double>(rows))));
}

}  // namespace

void TimedOps::record() {
  if (!std::exchange(asked_for_probe_, true)) probe_ = device_probe(1);
  calls_.clear();
  seen_.clear();
  if (probe_) probe_->take_marks();
  records_ = true;
}

std::vector<OpCall> TimedOps::take() {
  records_ = false;
  if (probe_) {
    const std::vector<double> at = probe_->take_marks();  // before and after each op
    ASHLAR_CHECK_EQ(at.size(), 2 * calls_.size());
    for (size_t i = 0; i < calls_.size(); ++i) calls_[i].seconds = at[2 * i + 1] - at[2 * i];
  }
  return std::exchange(calls_, {});
}

template <class Body>
void TimedOps::timed(OpCall call, const Body& body) {
  if (!records_) return body();
  call.begin_ns = now_ns();
  if (probe_) probe_->mark();
  body();
  if (probe_) {
    probe_->mark();
  } else {
    call.seconds = static_cast<double>(now_ns() - call.begin_ns) * 1e-9;
  }
  calls_.push_back(std::move(call));
}

int64_t TimedOps::kv_bytes(const AttentionShape& shape, int64_t tokens) const {
  return kv_page_bytes(shape) * tokens / kPageTokens;
}

TimedOps::Keys TimedOps::keys_of(const Rows& rows, Visibility visible) const {
  Keys keys;
  auto found = seen_.upper_bound(visible.begin);  // a layer may look at the last rows alone
  if (found == seen_.begin()) return keys;
  const auto& [at, seen] = *--found;
  const auto first = static_cast<size_t>(visible.begin - at);
  const auto n = static_cast<size_t>(rows.n);
  if (first + n > seen.begins.size()) return keys;
  for (size_t i = first; i < first + n;) {
    int32_t begin = seen.begins[i], end = seen.ends[i];
    const int32_t table = seen.tables[i];
    for (; i < first + n && seen.tables[i] == table; ++i) {
      begin = std::min(begin, seen.begins[i]);
      end = std::max(end, seen.ends[i]);
      keys.pairs += seen.ends[i] - seen.begins[i];
    }
    keys.read += end - begin;
  }
  return keys;
}

OpCall TimedOps::attention_call(const AttentionShape& shape, const Rows& rows, Visibility visible) const {
  const Keys keys = keys_of(rows, visible);
  OpCall call{"attention"};
  call.read = kv_bytes(shape, keys.read);
  call.products = 4 * keys.pairs * shape.q_width();
  return call;
}

void TimedOps::embed(const Weight& table, const int32_t* ids, float factor, Tensor out) {
  OpCall call = move("embed", {}, out);
  call.read = bytes_of(table) / std::max(table.n(), 1) * out.rows;
  timed(std::move(call), [&] { inner().embed(table, ids, factor, out); });
}
void TimedOps::rms_norm(Tensor x, const float* weight, float eps, Tensor out) {
  timed(move("rms_norm", {x}, out), [&] { inner().rms_norm(x, weight, eps, out); });
}
void TimedOps::linear(const Weight& weight, Input in, Store store, Tensor out) {
  OpCall call = product("linear", weight, in.x, bytes_of(out));
  if (store == Store::kAdd) call.read += bytes_of(out);
  timed(std::move(call), [&] { inner().linear(weight, in, store, out); });
}
void TimedOps::linear_argmax(const Weight& weight, Tensor x, int32_t* ids) {
  timed(product("linear_argmax", weight, x, int64_t{x.rows} * static_cast<int64_t>(sizeof(int32_t))),
        [&] { inner().linear_argmax(weight, x, ids); });
}
void TimedOps::linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) {
  timed(product("linear_statistics", weight, x, int64_t{x.rows} * static_cast<int64_t>(sizeof(RowStatistics))),
        [&] { inner().linear_statistics(weight, x, without, out); });
}
void TimedOps::gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) {
  OpCall call = product("gated_mlp", gate_up, in.x, bytes_of(out));
  call.read += bytes_of(down) + bytes_of(out);
  call.products += products(in.x.rows, down);
  timed(std::move(call), [&] { inner().gated_mlp(gate_up, down, in, out); });
}
void TimedOps::reduce_add(Tensor partial, Tensor residual) {
  timed(move("reduce_add", {partial, residual}, residual), [&] { inner().reduce_add(partial, residual); });
}
void TimedOps::route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) {
  OpCall call = move("route", {logits}, {});
  call.written = int64_t{logits.rows} * routes.top_k * static_cast<int64_t>(sizeof(int32_t) + sizeof(float));
  timed(std::move(call), [&] { inner().route(logits, factors, routing, routes); });
}
void TimedOps::mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) {
  OpCall call = move("mix_experts", {x, out}, out);
  const auto of_one = static_cast<int64_t>(experts.bytes()) / std::max(experts.n(), 1);
  call.read += of_one * distinct_experts(experts.n(), routes.top_k, x.rows);
  call.products = 6LL * x.rows * routes.top_k * experts.hidden() * experts.width();
  timed(std::move(call), [&] { inner().mix_experts(experts, x, routes, out); });
}
void TimedOps::store_kv(Tensor qkv, const KvStore& to) {
  OpCall call = move("store_kv", {qkv}, qkv);
  call.written += kv_bytes(to.shape, qkv.rows);
  timed(std::move(call), [&] { inner().store_kv(qkv, to); });
}
void TimedOps::linear_kv(const Weight& weight, Input in, Tensor qkv, const KvStore& to) {
  if (records_ && probe_) return Ops::linear_kv(weight, in, qkv, to);
  OpCall call = product("linear_kv", weight, in.x, bytes_of(qkv) + kv_bytes(to.shape, qkv.rows));
  timed(std::move(call), [&] { inner().linear_kv(weight, in, qkv, to); });
}
void TimedOps::commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                         KvPlane plane) {
  OpCall call{"commit_kv"};
  call.read = call.written = kv_bytes(shape, branch.n);
  timed(std::move(call), [&] { inner().commit_kv(shape, branch, page_table, plane); });
}
void TimedOps::attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                         Tensor out) {
  OpCall call = attention_call(shape, rows, visible);
  call.read += bytes_of(out);  // queries are as wide
  call.written = bytes_of(out);
  timed(std::move(call), [&] { inner().attention(q, shape, rows, visible, plane, out); });
}
// In its parts where those are ops of their own on the device, too.
void TimedOps::self_attention(const SelfAttention& call, Tensor out) {
  if (records_ && probe_) return Ops::self_attention(call, out);
  OpCall all = attention_call(call.store.shape, call.store.rows, call.visible);
  all.op = named("self_attention", call.projection);
  all.read += bytes_of(call.projection) + bytes_of(call.output) + bytes_of(call.in.x) + bytes_of(out);
  all.written = bytes_of(out) + bytes_of(call.copy) + kv_bytes(call.store.shape, call.in.x.rows);
  all.products += products(call.in.x.rows, call.projection) + products(call.in.x.rows, call.output);
  timed(std::move(all), [&] { inner().self_attention(call, out); });
}
void TimedOps::sigmoid_gate(Tensor gate, Tensor x) {
  timed(move("sigmoid_gate", {gate, x}, x), [&] { inner().sigmoid_gate(gate, x); });
}
void TimedOps::gelu_gate(Tensor gate, Tensor x) {
  timed(move("gelu_gate", {gate, x}, x), [&] { inner().gelu_gate(gate, x); });
}
void TimedOps::gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) {
  OpCall call = move("gated_delta_net", {in}, out);
  call.read += net.shape.state_floats() * static_cast<int64_t>(sizeof(float));  // of one sequence
  call.written += net.shape.state_floats() * static_cast<int64_t>(sizeof(float));
  timed(std::move(call), [&] { inner().gated_delta_net(in, net, out); });
}
void TimedOps::short_conv(Tensor in, const ShortConv& conv, Tensor out) {
  timed(move("short_conv", {in}, out), [&] { inner().short_conv(in, conv, out); });
}
void TimedOps::grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                            Tensor out) {
  timed(move("grouped_conv", {x, dynamic}, out), [&] { inner().grouped_conv(x, dynamic, conv, tables, store, out); });
}
void TimedOps::find_candidates(Tensor logits, Candidates out) {
  timed(move("find_candidates", {logits}, {}), [&] { inner().find_candidates(logits, out); });
}
void TimedOps::score_edges(const CandidateEdges& edges, Tensor out) {
  timed(move("score_edges", {edges.hidden}, out), [&] { inner().score_edges(edges, out); });
}
void TimedOps::candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) {
  timed(move("candidate_attention", {qkv}, out), [&] { inner().candidate_attention(qkv, call, out); });
}
void TimedOps::gather_rows(Tensor x, const int32_t* indices, Tensor out) {
  timed(move("gather_rows", {out}, out), [&] { inner().gather_rows(x, indices, out); });
}
void TimedOps::copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) {
  const Tensor rows{out.data, n, out.cols, out.stride, out.dtype};
  timed(move("copy_rows", {rows}, rows), [&] { inner().copy_rows(x, from, to, n, out); });
}
void TimedOps::copy(Tensor x, Tensor out) {
  timed(move("copy", {x}, out), [&] { inner().copy(x, out); });
}
void TimedOps::visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) {
  timed(OpCall{"visibility"}, [&] { inner().visibility(rows, window, causal, begin, end); });
  if (!records_) return;
  Seen& seen = seen_[begin];
  const auto fetch = [&](const int32_t* from, std::vector<int32_t>& to) {
    to.resize(static_cast<size_t>(rows.n));
    inner().download(reinterpret_cast<const std::byte*>(from), to.data(), to.size() * sizeof(int32_t));
  };
  fetch(begin, seen.begins);
  fetch(end, seen.ends);
  fetch(rows.tables, seen.tables);
}
void TimedOps::scale(Tensor x, float factor) {
  timed(move("scale", {x}, x), [&] { inner().scale(x, factor); });
}
void TimedOps::softcap(Tensor x, float limit) {
  timed(move("softcap", {x}, x), [&] { inner().softcap(x, limit); });
}
void TimedOps::choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) {
  timed(move("choose", {logits.narrow(std::min(logits.rows, static_cast<int32_t>(requests.size())))}, {}),
        [&] { inner().choose(logits, requests, choices); });
}
void TimedOps::upload(const void* from, std::byte* to, size_t bytes) {
  const auto n = static_cast<int64_t>(bytes);
  timed({"upload", n, n}, [&] { inner().upload(from, to, bytes); });
}
void TimedOps::download(const std::byte* from, void* to, size_t bytes) {
  const auto n = static_cast<int64_t>(bytes);
  timed({"download", n, n}, [&] { inner().download(from, to, bytes); });
}
void TimedOps::copy_bytes(const std::byte* from, std::byte* to, size_t bytes) {
  const auto n = static_cast<int64_t>(bytes);
  timed({"copy_bytes", n, n}, [&] { inner().copy_bytes(from, to, bytes); });
}
void TimedOps::run_pass(const PassKey& key, const std::function<void()>& pass) {
  records_ ? pass() : inner().run_pass(key, pass);
}
void TimedOps::for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) {
  timed(OpCall{"for_each"}, [&] { inner().for_each(n, fn, context); });
}

}  // namespace ashlar
