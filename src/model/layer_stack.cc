#include "model/layer_stack.h"

#include <algorithm>
#include <utility>

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

void LayerStack::settle(Ops& ops, const KvMemory& kv, const Overlay& overlay, const int32_t* pages) const {
  for (int32_t i = 0; i < config_.n_layers; ++i) {
    ops.settle_kv(config_.attention, overlay, pages, kv.plane(first_plane_ + i));
  }
}

void LayerStack::store_keys(Ops& ops, int32_t index, const RowBatch& batch, const Rope& rope, const KvMemory& kv,
                            StackWorkspace& workspace) const {
  const Layer& layer = layers_[index];
  const Tensor qkv = workspace.qkv.narrow(batch.n());
  ops.linear(*layer.qkv, {workspace.x.narrow(batch.n()), layer.input_norm.data(), config_.norm_eps}, Store::kOverwrite,
             qkv);
  ops.store_kv(qkv, config_.attention, layer.q_norm.data(), layer.k_norm.data(), config_.norm_eps, rope.table(),
               batch.rows(), kv.plane(first_plane_ + index));
}

void LayerStack::attend(Ops& ops, int32_t index, const RowBatch& batch, int32_t first, const KvMemory& kv,
                        StackWorkspace& workspace) const {
  const int64_t kind_offset = int64_t{kind_of_[index]} * workspace.x.rows;
  const Visibility visible = {workspace.begin.data() + kind_offset, workspace.end.data() + kind_offset};
  ops.attention(workspace.qkv.narrow(batch.n()).skip(first), config_.attention, batch.rows().skip(first),
                visible.skip(first), kv.plane(first_plane_ + index), workspace.mixed.narrow(batch.n()).skip(first));
}

Tensor LayerStack::forward(Ops& ops, const RowBatch& batch, const Rope& rope, const KvMemory& kv,
                           StackWorkspace& workspace, const TapRequest& taps) const {
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    const size_t offset = kind * workspace.x.rows;
    batch.visibility(kinds_[kind], workspace.begin.data() + offset, workspace.end.data() + offset);
  }
  const int32_t last = config_.n_layers - 1;
  const bool tapped = !taps.taps.empty() && taps.taps.back().layer == last;
  const Tensor kept = workspace.kept.narrow(batch.n_outputs());
  // Of a row that is no output nobody reads what the last layer adds to it, only its K and V.
  const bool few = !tapped && kWorthGathering * (batch.n() - batch.n_outputs()) >= batch.n();
  Tensor x = workspace.x.narrow(batch.n());
  size_t next_tap = 0;
  for (int32_t i = 0; i <= last; ++i) {
    store_keys(ops, i, batch, rope, kv, workspace);
    if (i == last && few && kept.rows == 0) return kept;
    attend(ops, i, batch, i == last && few ? batch.outputs()[0] : 0, kv, workspace);
    Tensor mixed = workspace.mixed.narrow(batch.n());
    if (i == last && few) {
      const Tensor all = std::exchange(mixed, workspace.qkv.narrow(kept.rows).columns(0, mixed.cols));
      ops.gather_rows(all, batch.outputs(), mixed);
      ops.gather_rows(x, batch.outputs(), kept);
      x = kept;
    }
    ops.linear(*layers_[i].output, mixed, Store::kAdd, x);
    layers_[i].mlp->forward(ops, {x, layers_[i].post_norm.data(), config_.norm_eps}, workspace.mlp, x);
    for (; next_tap < taps.taps.size() && taps.taps[next_tap].layer == i; ++next_tap) {
      ops.copy(x, taps.out.narrow(batch.n()).columns(taps.taps[next_tap].column, config_.hidden));
    }
  }
  if (x.rows == kept.rows) return x;
  ops.gather_rows(x, batch.outputs(), kept);
  return kept;
}

size_t LayerStack::weight_bytes() const {
  size_t total = 0;
  for (const Layer& layer : layers_) total += layer.qkv->bytes() + layer.output->bytes() + layer.mlp->bytes();
  return total;
}

}  // namespace ashlar
