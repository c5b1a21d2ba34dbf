#include "model/layer_stack.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace ashlar {
namespace {

constexpr int32_t kWorthGathering = 4;  // the last layer leaves rows out if they are a quarter or more

// Carves consecutive [rows, cols] tensors out of one buffer; every tensor starts on a cache line.
class Carver {
 public:
  explicit Carver(int32_t rows) : rows_(rows) {}
  void add(Tensor& tensor, int32_t cols) {
    const int64_t stride = (cols + 15) / 16 * 16;
    tensor = {nullptr, rows_, cols, stride};
    parts_.push_back({&tensor, floats_});
    floats_ += stride * rows_;
  }
  std::unique_ptr<Buffer> allocate(Ops& ops) {
    auto buffer = ops.allocate(static_cast<size_t>(floats_) * sizeof(float));
    for (const auto& [tensor, offset] : parts_) tensor->data = reinterpret_cast<float*>(buffer->data()) + offset;
    return buffer;
  }

 private:
  int32_t rows_;
  int64_t floats_ = 0;
  std::vector<std::pair<Tensor*, int64_t>> parts_;
};

}  // namespace

StackWorkspace::StackWorkspace(Ops& ops, const StackConfig& config, int32_t max_rows) {
  Carver carver(max_rows);
  carver.add(x, config.hidden);
  carver.add(normed, config.hidden);
  carver.add(qkv, config.attention.q_width() + 2 * config.attention.kv_width());
  carver.add(mixed, config.attention.q_width());
  carver.add(kept, config.hidden);
  if (config.moe) carver.add(mlp.scores, config.moe->n_experts);
  storage_ = carver.allocate(ops);
  mlp.normed = normed;
  if (config.moe) {
    const int32_t top_k = config.moe->routing.top_k;
    const int64_t choices = int64_t{max_rows} * top_k;
    routes_ = ops.allocate(static_cast<size_t>(choices) * (sizeof(int32_t) + sizeof(float)));
    auto* experts = reinterpret_cast<int32_t*>(routes_->data());
    mlp.routes = {top_k, experts, reinterpret_cast<float*>(experts + choices)};
  }
  begin.resize(static_cast<size_t>(config.n_layers) * max_rows);
  end.resize(begin.size());
}

LayerStack::LayerStack(WeightBinder& binder, const StackConfig& config, const std::string& prefix) : config_(config) {
  const AttentionShape& shape = config.attention;
  const LayerNames& names = config.names;
  for (int32_t i = 0; i < config.n_layers; ++i) {
    const std::string base = prefix + std::to_string(i) + ".";
    const auto norm = [&](const char* name, int32_t n) { return binder.device_vector(base + name + ".weight", n); };
    Layer layer;
    layer.input_norm = norm(names.input_norm, config.hidden);
    layer.post_norm = norm(names.post_norm, config.hidden);
    if (config.qk_norm) {
      layer.q_norm = norm(names.q_norm, shape.head_dim);
      layer.k_norm = norm(names.k_norm, shape.head_dim);
    }
    std::vector<WeightBinder::Part> qkv = {
        {base + names.q, shape.q_width()}, {base + names.k, shape.kv_width()}, {base + names.v, shape.kv_width()}};
    if (names.fused_qkv != nullptr) qkv = {{base + names.fused_qkv, shape.q_width() + 2 * shape.kv_width()}};
    layer.qkv = binder.linear(qkv, config.hidden, config.qkv_bias);
    layer.output = binder.linear({{base + names.attention_output, config.hidden}}, shape.q_width(), config.output_bias);
    layer.mlp = bind_mlp(binder, base, config, i);
    layers_.push_back(std::move(layer));

    const auto found = std::find(kinds_.begin(), kinds_.end(), config.layers[i]);
    kind_of_.push_back(static_cast<int32_t>(found - kinds_.begin()));
    if (found == kinds_.end()) kinds_.push_back(config.layers[i]);
  }
}

void LayerStack::register_planes(KvLayout& layout, const std::string& name, Ops& ops) {
  for (int32_t i = 0; i < config_.n_layers; ++i) {
    const int32_t plane = layout.add_plane(name + "." + std::to_string(i), ops.kv_page_bytes(config_.attention));
    if (i == 0) first_plane_ = plane;
  }
}

void LayerStack::commit(Ops& ops, const KvMemory& kv, const BranchTable& branch, const int32_t* pages) const {
  for (int32_t i = 0; i < config_.n_layers; ++i) {
    ops.commit_kv(config_.attention, branch, pages, kv.plane(first_plane_ + i));
  }
}

Input LayerStack::input(int32_t index, const Pass& pass) const {
  return {pass.workspace.x.narrow(pass.batch.n()), layers_[index].input_norm.data(), config_.norm_eps};
}

KvStore LayerStack::store(int32_t index, const Pass& pass, const Rows& rows) const {
  const Layer& layer = layers_[index];
  return {config_.attention,
          layer.q_norm.data(),
          layer.k_norm.data(),
          config_.norm_eps,
          pass.rope.table(),
          rows,
          pass.kv.plane(first_plane_ + index)};
}

Visibility LayerStack::visible(int32_t index, const Pass& pass) const {
  const int64_t at = int64_t{kind_of_[index]} * pass.workspace.x.rows;
  return {pass.workspace.begin.data() + at, pass.workspace.end.data() + at};
}

Tensor LayerStack::forward(Ops& ops, const RowBatch& batch, const Rope& rope, const KvMemory& kv,
                           StackWorkspace& workspace, const AuxHiddenRequest& aux) const {
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    const size_t offset = kind * workspace.x.rows;
    batch.visibility(kinds_[kind], workspace.begin.data() + offset, workspace.end.data() + offset);
  }
  const bool last_is_aux = !aux.layers.empty() && aux.layers.back().layer == config_.n_layers - 1;
  // What the last layer adds to a row that is no output is not read; only its K and V are.
  const bool few = !last_is_aux && kWorthGathering * (batch.n() - batch.n_outputs()) >= batch.n();
  const Pass pass = {batch, rope, kv, workspace, aux, few};
  for (int32_t i = 0; i < config_.n_layers; ++i) {
    const bool for_outputs = few && i + 1 == config_.n_layers;
    for_outputs ? run_for_outputs(ops, i, pass) : run_layer(ops, i, pass);
  }
  const Tensor kept = workspace.kept.narrow(batch.n_outputs());
  if (few) return kept;
  const Tensor x = workspace.x.narrow(batch.n());
  if (x.rows == kept.rows) return x;
  ops.gather_rows(x, batch.outputs(), kept);
  return kept;
}

void LayerStack::run_layer(Ops& ops, int32_t index, const Pass& pass) const {
  const Layer& layer = layers_[index];
  const StackWorkspace& workspace = pass.workspace;
  const int32_t n = pass.batch.n();
  const Tensor x = workspace.x.narrow(n);
  // Auxiliary hidden states between two layers are copied where the second one reads its rows anyway.
  const std::span<const AuxLayer> after = pass.aux.after(index - 1);
  const bool copies = after.size() == 1;
  if (!copies) copy_aux_hidden(ops, index - 1, pass);
  const Rows rows = pass.batch.rows();
  ops.self_attention({*layer.qkv, *layer.output, input(index, pass), store(index, pass, rows), visible(index, pass),
                      workspace.qkv.narrow(n), workspace.mixed.narrow(n),
                      copies ? pass.aux.out.narrow(n).columns(after[0].column, config_.hidden) : Tensor{}},
                     x);
  feed_forward(ops, index, pass, x);
  if (index + 1 == config_.n_layers) copy_aux_hidden(ops, index, pass);
}

void LayerStack::run_for_outputs(Ops& ops, int32_t index, const Pass& pass) const {
  copy_aux_hidden(ops, index - 1, pass);
  const Layer& layer = layers_[index];
  const StackWorkspace& workspace = pass.workspace;
  const Rows rows = pass.batch.rows();
  const KvStore to = store(index, pass, rows);
  ops.linear_kv(*layer.qkv, input(index, pass), workspace.qkv.narrow(rows.n), to);
  const int32_t n_outputs = pass.batch.n_outputs();
  if (n_outputs == 0) return;

  // Rows before the first output attend to nothing.
  const int32_t* const outputs = pass.batch.outputs();
  const int32_t first = outputs[0];
  const Visibility all = visible(index, pass);
  ops.attention(workspace.qkv.part(first, rows.n - first), config_.attention, rows.part(first, rows.n - first),
                {all.begin + first, all.end + first}, to.plane, workspace.mixed.part(first, rows.n - first));
  const Tensor mixed = workspace.qkv.narrow(n_outputs).columns(0, workspace.mixed.cols);
  const Tensor x = workspace.kept.narrow(n_outputs);
  ops.gather_rows(workspace.mixed.narrow(rows.n), outputs, mixed);
  ops.gather_rows(workspace.x.narrow(rows.n), outputs, x);
  ops.linear(*layer.output, mixed, Store::kAdd, x);
  feed_forward(ops, index, pass, x);
}

void LayerStack::feed_forward(Ops& ops, int32_t index, const Pass& pass, Tensor x) const {
  const Layer& layer = layers_[index];
  layer.mlp->forward(ops, {x, layer.post_norm.data(), config_.norm_eps}, pass.workspace.mlp, x);
  pass.workspace.progress_ns.store(now_ns(), std::memory_order_relaxed);
}

void LayerStack::copy_aux_hidden(Ops& ops, int32_t index, const Pass& pass) const {
  const int32_t n = pass.batch.n();
  for (const AuxLayer& layer : pass.aux.after(index)) {
    ops.copy(pass.workspace.x.narrow(n), pass.aux.out.narrow(n).columns(layer.column, config_.hidden));
  }
}

size_t LayerStack::weight_bytes() const {
  size_t total = 0;
  for (const Layer& layer : layers_) total += layer.qkv->bytes() + layer.output->bytes() + layer.mlp->bytes();
  return total;
}

}  // namespace ashlar
