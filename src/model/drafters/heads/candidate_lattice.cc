// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/heads/candidate_lattice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/bf16.h"
#include "device/tensor_room.h"

namespace ashlar {
namespace {

// Columns of a candidate's numbers as a row of a product: the others are zero.
constexpr int32_t kNumberColumns = 16;

// Rows of `cols` columns in a tensor's memory, from its element `after` on.
Tensor reshaped(Tensor storage, int32_t rows, int32_t cols, int64_t after = 0) {
  auto* const data = static_cast<std::byte*>(storage.data) + after * static_cast<int64_t>(bytes_of(storage.dtype));
  ASHLAR_CHECK_LE(after + int64_t{rows} * cols, int64_t{storage.rows} * storage.cols);
  return {data, rows, cols, cols, storage.dtype};
}

WeightBinder::Part part(const std::string& name, int32_t rows) { return {name, rows}; }

// The product with a candidate's numbers, which have a few columns more here.
std::unique_ptr<Weight> bind_numbers(WeightBinder& binder, const std::string& name, int32_t hidden) {
  constexpr size_t kCount = CandidateNumbers::kCount;
  const std::vector<float> stored = binder.table(name + ".weight", hidden, kCount);
  std::vector<float> wide(static_cast<size_t>(hidden) * kNumberColumns);
  for (size_t row = 0; row < static_cast<size_t>(hidden); ++row) {
    std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(row * kCount), kCount,
                wide.begin() + static_cast<std::ptrdiff_t>(row * kNumberColumns));
  }
  return binder.ops().pack(
      {{{name, Scheme::kF32, wide.data(), hidden, kNumberColumns}}, binder.vector(name + ".bias", hidden)});
}

// What a candidate's position in the block and its rank add, together.
std::unique_ptr<Weight> bind_places(WeightBinder& binder, const std::string& prefix, int32_t slots,
                                    const LatticeConfig& config) {
  const auto hidden = static_cast<size_t>(config.hidden);
  const std::vector<float> by_slot = binder.values(prefix + "slot_embedding", {1, 1, slots, 1, config.hidden});
  const std::vector<float> by_rank = binder.values(prefix + "rank_embedding", {1, 1, 1, config.top_k, config.hidden});
  std::vector<float> sums;
  for (size_t slot = 0; slot < by_slot.size(); slot += hidden) {
    for (size_t rank = 0; rank < by_rank.size(); rank += hidden) {
      for (size_t i = 0; i < hidden; ++i) sums.push_back(by_slot[slot + i] + by_rank[rank + i]);
    }
  }
  const int32_t rows = slots * config.top_k;
  return binder.ops().pack({{{"slot_embedding", Scheme::kF32, sums.data(), rows, config.hidden}}, {}});
}

// What is added to the scores of a head by distance; at distance 0 there is a number of its own besides.
std::vector<float> read_bias(WeightBinder& binder, const std::string& prefix, int32_t slots,
                             const LatticeConfig& config) {
  std::vector<float> bias = binder.table(prefix + "relative_slot_bias", config.heads, 2 * slots + 1);
  const std::vector<float> same = binder.vector(prefix + "same_slot_bias", config.heads);
  for (size_t head = 0; head < same.size(); ++head) {
    bias[head * (2 * static_cast<size_t>(slots) + 1) + static_cast<size_t>(slots)] += same[head];
  }
  return bias;
}

int32_t spare_columns(const LatticeConfig& config) { return std::max(config.hidden, config.inner); }
int32_t wide_columns(const LatticeConfig& config, int32_t model_hidden) {
  return std::max({model_hidden, 3 * config.hidden, config.inner, 2 * config.factor});
}

}  // namespace

CandidateLattice::CandidateLattice(WeightBinder& binder, const std::string& prefix, const DflashConfig& config,
                                   const Weight& embedding)
    : config_(*config.lattice),
      model_hidden_(config.stack.hidden),
      slots_(config.block_size - 1),
      eps_(config.stack.norm_eps),
      embedding_scale_(config.embedding_scale),
      embedding_(embedding),
      numbers_(config_.top_k, binder.vector(prefix + "feature_mlp.0.weight", CandidateNumbers::kCount),
               binder.vector(prefix + "feature_mlp.0.bias", CandidateNumbers::kCount)),
      pass_(binder.linear({part(prefix + "pass_hidden_proj", config_.hidden)}, model_hidden_, true)),
      numbers_up_(bind_numbers(binder, prefix + "feature_mlp.1", config_.hidden)),
      numbers_down_(binder.linear({part(prefix + "feature_mlp.3", config_.hidden)}, config_.hidden, true)),
      places_(bind_places(binder, prefix, slots_, config_)),
      bias_(binder.ops(), read_bias(binder, prefix, slots_, config_)),
      output_norm_(binder.device_vector(prefix + "output_norm.weight", config_.hidden)),
      anchor_norm_(binder.device_vector(prefix + "anchor_norm.weight", config_.hidden)),
      unit_(binder.ops(), std::vector<float>(static_cast<size_t>(config_.factor),
                                             1.0F / std::sqrt(static_cast<float>(config_.factor)))),
      nothing_(binder.ops(), std::vector<float>(static_cast<size_t>(config_.hidden))),
      context_(binder.linear({part(prefix + "context_proj", config_.hidden)}, model_hidden_, true)),
      out_(binder.linear({part(prefix + "out_head", config_.factor)}, config_.hidden, true)),
      in_(binder.linear({part(prefix + "in_head", config_.factor)}, config_.hidden, true)),
      anchor_out_(binder.linear({part(prefix + "anchor_out_head", config_.factor)}, config_.hidden, true)) {
  const int32_t hidden = config_.hidden;
  if (hidden != model_hidden_) token_ = binder.linear({part(prefix + "token_proj", hidden)}, model_hidden_, true);
  // One product of [candidate; anchor; candidate * anchor], cut so that what an anchor adds is computed once a block.
  const std::string factors = prefix + "factor_input_proj";
  const WeightPart all = binder.matrix(factors + ".weight", hidden, int64_t{3} * hidden);
  const auto columns = [&](int32_t piece) {
    return std::vector<WeightPart>{all.block(0, hidden, int64_t{piece} * hidden, hidden)};
  };
  of_candidate_ = binder.linear(columns(0));
  of_anchor_ = binder.linear(columns(1), binder.vector(factors + ".bias", hidden));
  of_both_ = binder.linear(columns(2));
  bind_layers(binder, prefix);
}

void CandidateLattice::bind_layers(WeightBinder& binder, const std::string& prefix) {
  const int32_t hidden = config_.hidden;
  for (int32_t i = 0; i < config_.layers; ++i) {
    const std::string base = prefix + "layers." + std::to_string(i) + ".";
    Layer& layer = layers_.emplace_back();
    layer.attention_norm = binder.device_vector(base + "attn_norm.weight", hidden);
    layer.mlp_norm = binder.device_vector(base + "mlp_norm.weight", hidden);
    layer.qkv = binder.linear({binder.matrix(base + "attn.in_proj_weight", int64_t{3} * hidden, hidden)},
                              binder.vector(base + "attn.in_proj_bias", int64_t{3} * hidden));
    layer.output = binder.linear({part(base + "attn.out_proj", hidden)}, hidden, true);
    layer.up = binder.linear({part(base + "mlp.0", config_.inner)}, hidden, true);
    layer.down = binder.linear({part(base + "mlp.2", hidden)}, config_.inner, true);
  }
}

size_t CandidateLattice::bytes_read() const {
  size_t sum = token_ ? token_->bytes() : 0;
  for (const auto* weight : {&pass_, &numbers_up_, &numbers_down_, &context_, &of_candidate_, &of_anchor_, &of_both_,
                             &out_, &in_, &anchor_out_}) {
    sum += (*weight)->bytes();
  }
  for (const Layer& layer : layers_) {
    sum += layer.qkv->bytes() + layer.output->bytes() + layer.up->bytes() + layer.down->bytes();
  }
  return sum;
}

int64_t CandidateLattice::workspace(const LatticeConfig& config, int32_t model_hidden, int32_t rows) {
  const int64_t columns =
      2 * config.hidden + kNumberColumns + spare_columns(config) + wide_columns(config, model_hidden);
  return rows * (config.top_k * columns + 2 * config.hidden + config.factor);
}

void CandidateLattice::reserve(Ops& ops, int32_t rows) {
  numbers_.reserve(rows);
  const int32_t n = config_.top_k, all = rows * n;
  device_indices_ = {ops, int64_t{4} * all + int64_t{3} * rows};
  indices_.reserve(static_cast<size_t>(device_indices_.size()));
  number_bytes_.reserve(sizeof(float) * static_cast<size_t>(all) * kNumberColumns);
  zeros_ = {ops, all};
  edges_ = {ops, int64_t{all} * n};
  scores_.reserve(static_cast<size_t>(edges_.size()));
  one_ = {ops, config_.factor};
  one_.upload(std::vector<float>(static_cast<size_t>(config_.factor), 1.0F));
  const DType type = ops.activation_type();
  const auto lay_out = [&](TensorRoom room) {
    wide_ = room.take(all, wide_columns(config_, model_hidden_), type);
    spare_ = room.take(all, spare_columns(config_), type);
    for (Tensor* t : {&x_, &factors_}) *t = room.take(all, config_.hidden, type);
    number_rows_ = room.take(all, kNumberColumns, type);
    for (Tensor* t : {&anchors_, &of_anchors_}) *t = room.take(rows, config_.hidden, type);
    anchor_outs_ = room.take(rows, config_.factor, type);
    return room.size();
  };
  storage_ = place_tensors(ops, lay_out);
}

CandidateLattice::Places CandidateLattice::upload_places(int32_t rows, std::span<const CandidateRows::Begin> begins) {
  const int32_t n = config_.top_k;
  const auto all = static_cast<size_t>(rows) * static_cast<size_t>(n), positions = static_cast<size_t>(rows);
  indices_.assign(4 * all + 3 * positions, 0);
  std::copy(numbers_.ids().begin(), numbers_.ids().end(), indices_.begin());
  int32_t* const of_candidate = indices_.data() + all;
  int32_t* const of_row = indices_.data() + 4 * all;
  for (size_t block = 0; block < begins.size(); ++block) {
    const int32_t first = begins[block].row;
    const int32_t end = block + 1 < begins.size() ? begins[block + 1].row : rows;
    ASHLAR_CHECK_LE(end - first, slots_);
    for (int32_t row = first; row < end; ++row) {
      const auto r = static_cast<size_t>(row);
      of_row[r] = row == first ? static_cast<int32_t>(block) : -1;
      of_row[positions + r] = first;
      of_row[2 * positions + r] = end;
      for (int32_t j = 0; j < n; ++j) {
        const size_t i = r * static_cast<size_t>(n) + static_cast<size_t>(j);
        of_candidate[i] = (row - first) * n + j;
        of_candidate[all + i] = row;
        of_candidate[2 * all + i] = static_cast<int32_t>(block);
      }
    }
  }
  device_indices_.upload(indices_);
  const int32_t* const device = device_indices_.device();
  const int32_t* const device_rows = device + 4 * all;
  return {device,
          device + all,
          device + 2 * all,
          device + 3 * all,
          device_rows,
          device_rows + positions,
          device_rows + 2 * positions};
}

void CandidateLattice::upload_numbers(Ops& ops) {
  const size_t item = bytes_of(number_rows_.dtype);
  number_bytes_.assign(numbers_.normed().size() * kNumberColumns * item, std::byte{0});
  std::byte* row = number_bytes_.data();
  for (const CandidateNumbers::Numbers& numbers : numbers_.normed()) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const BFloat16 narrow = to_bf16(numbers[i]);
      const void* const value = number_rows_.dtype == DType::kF32 ? static_cast<const void*>(&numbers[i]) : &narrow;
      std::memcpy(row + i * item, value, item);
    }
    row += kNumberColumns * item;
  }
  ops.upload(number_bytes_.data(), static_cast<std::byte*>(number_rows_.data), number_bytes_.size());
}

void CandidateLattice::add_gathered(Ops& ops, Tensor from, const int32_t* indices, Tensor x) {
  const Tensor rows = reshaped(spare_, x.rows, x.cols);
  ops.gather_rows(from, indices, rows);
  ops.reduce_add(rows, x);
}

void CandidateLattice::silu(Ops& ops, Tensor x) {
  const Tensor gates = reshaped(spare_, x.rows, x.cols);
  ops.copy(x, gates);
  ops.sigmoid_gate(gates, x);
}

void CandidateLattice::embed(Ops& ops, const Places& at, Tensor hidden, Tensor x) {
  if (token_) {
    const Tensor embedded = reshaped(wide_, x.rows, model_hidden_);
    ops.embed(embedding_, at.ids, embedding_scale_, embedded);
    ops.linear(*token_, embedded, Store::kOverwrite, x);
  } else {
    ops.embed(embedding_, at.ids, embedding_scale_, x);
  }
  const Tensor passed = reshaped(wide_, hidden.rows, x.cols);
  ops.linear(*pass_, hidden, Store::kOverwrite, passed);
  add_gathered(ops, passed, at.rows, x);
  const Tensor numbers = reshaped(wide_, x.rows, x.cols);
  ops.linear(*numbers_up_, number_rows_.narrow(x.rows), Store::kOverwrite, numbers);
  silu(ops, numbers);
  ops.linear(*numbers_down_, numbers, Store::kAdd, x);
  const Tensor places = reshaped(spare_, x.rows, x.cols);
  ops.embed(*places_, at.places, 1.0F, places);
  ops.reduce_add(places, x);
}

void CandidateLattice::run_layers(Ops& ops, const Places& at, Tensor x) {
  const CandidateAttention attention = {config_.top_k, config_.heads, slots_, bias_.data(), at.first, at.end};
  for (const Layer& layer : layers_) {
    const Tensor qkv = reshaped(wide_, x.rows, 3 * x.cols), mixed = reshaped(spare_, x.rows, x.cols);
    ops.linear(*layer.qkv, {x, layer.attention_norm.data(), eps_}, Store::kOverwrite, qkv);
    ops.candidate_attention(qkv, attention, mixed);
    ops.linear(*layer.output, mixed, Store::kAdd, x);
    const Tensor inner = reshaped(wide_, x.rows, config_.inner);
    ops.linear(*layer.up, {x, layer.mlp_norm.data(), eps_}, Store::kOverwrite, inner);
    silu(ops, inner);
    ops.linear(*layer.down, inner, Store::kAdd, x);
  }
  ops.rms_norm(x, output_norm_.data(), eps_, x);
}

// Vectors become v / sqrt(|v|^2 + eps^2) by an RMS norm, where the source has v / max(|v|, eps): the same up to
// rounding for all that are not as short as eps itself.
void CandidateLattice::score_edges(Ops& ops, const Places& at, Tensor x, Tensor features, int32_t rows) {
  const int32_t blocks = features.rows, factor = config_.factor;
  const Tensor anchors = anchors_.narrow(blocks), of_anchors = of_anchors_.narrow(blocks);
  ops.linear(*context_, features, Store::kOverwrite, anchors);
  ops.rms_norm(anchors, anchor_norm_.data(), eps_, anchors);
  ops.linear(*of_anchor_, anchors, Store::kOverwrite, of_anchors);

  const Tensor factors = factors_.narrow(x.rows);
  ops.linear(*of_candidate_, x, Store::kOverwrite, factors);
  add_gathered(ops, of_anchors, at.blocks, factors);
  // A convolution of one row, whose weights are the anchor: the product of both, number by number.
  const Tensor anchor_rows = reshaped(spare_, x.rows, x.cols), both = reshaped(wide_, x.rows, x.cols);
  ops.gather_rows(anchors, at.blocks, anchor_rows);
  ops.grouped_conv(x, anchor_rows, {1, 1, nothing_.data()}, at.blocks, Store::kOverwrite, both);
  ops.linear(*of_both_, both, Store::kAdd, factors);
  silu(ops, factors);

  const float eps = config_.vector_eps * config_.vector_eps / static_cast<float>(factor);
  const auto vectors = [&](const Weight& weight, Tensor from, Tensor to) {
    ops.linear(weight, from, Store::kOverwrite, to);
    ops.rms_norm(to, unit_.data(), eps, to);
    return to;
  };
  const Tensor outs = vectors(*out_, factors, reshaped(wide_, x.rows, factor));
  const Tensor ins = vectors(*in_, factors, reshaped(wide_, x.rows, factor, int64_t{x.rows} * factor));
  const Tensor anchor_outs = vectors(*anchor_out_, anchors, anchor_outs_.narrow(blocks));
  const int32_t n = config_.top_k;
  // A cosine alone: the candidates' logits count for nothing here, and every row's hidden state for one.
  const CandidateEdges edges = {{n, nullptr, zeros_.device()},    at.begins,          anchor_outs, outs, ins,
                                {one_.device(), rows, factor, 0}, config_.logit_scale};
  ops.score_edges(edges, {edges_.device(), rows, n * n, n * n});
}

SelectedEdges CandidateLattice::score(Ops& ops, const CandidateRows& of) {
  const int32_t rows = of.hidden.rows, n = config_.top_k;
  ASHLAR_CHECK_EQ(of.features.rows, static_cast<int32_t>(of.begins.size()));
  numbers_.find(ops, of.logits);
  const Places at = upload_places(rows, of.begins);
  upload_numbers(ops);
  PassKey key(this, rows * n);
  for (const Tensor& tensor : {of.hidden, of.features, x_}) key.add(tensor);
  const auto pass = [&] {
    const Tensor x = x_.narrow(rows * n);
    embed(ops, at, of.hidden, x);
    run_layers(ops, at, x);
    score_edges(ops, at, x, of.features, rows);
  };
  ops.run_pass(key, std::ref(pass));
  const std::span<const float> scores = edges_.download(int64_t{rows} * n * n);
  scores_.assign(scores.begin(), scores.end());
  for (int32_t row = 0; row < rows; ++row) {  // what a row has no token for
    for (int32_t pair = 0; pair < n * n && numbers_.found(row) < n; ++pair) {
      if (pair % n < numbers_.found(row)) continue;
      scores_[static_cast<size_t>(row) * static_cast<size_t>(n * n) + static_cast<size_t>(pair)] =
          -std::numeric_limits<float>::infinity();
    }
  }
  return {n, numbers_.ids(), scores_};
}

}  // namespace ashlar
