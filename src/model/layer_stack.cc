#include "model/layer_stack.h"

#include <algorithm>

namespace ashlar {
namespace {

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
  carver.add(gated, config.intermediate);
  storage_ = carver.allocate(ops);
  begin.resize(static_cast<size_t>(config.n_layers) * max_rows);
  end.resize(begin.size());
}

LayerStack::LayerStack(WeightBinder& binder, const StackConfig& config, const std::string& prefix) : config_(config) {
  const AttentionShape& shape = config.attention;
  for (int32_t i = 0; i < config.n_layers; ++i) {
    const std::string base = prefix + "layers." + std::to_string(i) + ".";
    Layer layer;
    layer.input_norm = binder.device_vector(base + "input_layernorm.weight", config.hidden);
    layer.post_norm = binder.device_vector(base + "post_attention_layernorm.weight", config.hidden);
    const std::string attention = base + "self_attn.";
    if (config.qk_norm) {
      layer.q_norm = binder.device_vector(attention + "q_norm.weight", shape.head_dim);
      layer.k_norm = binder.device_vector(attention + "k_norm.weight", shape.head_dim);
    }
    layer.qkv = binder.linear({{attention + "q_proj", shape.q_width()},
                               {attention + "k_proj", shape.kv_width()},
                               {attention + "v_proj", shape.kv_width()}},
                              config.hidden, config.qkv_bias);
    layer.output = binder.linear({{attention + "o_proj", config.hidden}}, shape.q_width(), config.output_bias);
    layer.gate_up = binder.gated({base + "mlp.gate_proj", config.intermediate},
                                 {base + "mlp.up_proj", config.intermediate}, config.hidden, config.mlp_bias);
    layer.down = binder.linear({{base + "mlp.down_proj", config.hidden}}, config.intermediate, config.mlp_bias);
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

void LayerStack::attend(Ops& ops, const Layer& layer, int32_t index, const RowBatch& batch, const Rope& rope,
                        const KvMemory& kv, StackWorkspace& workspace) const {
  const int32_t n = batch.n();
  const Tensor x = workspace.x.narrow(n);
  const Tensor normed = workspace.normed.narrow(n);
  const Tensor qkv = workspace.qkv.narrow(n);
  const Tensor mixed = workspace.mixed.narrow(n);
  const KvPlane plane = kv.plane(first_plane_ + index);
  const int64_t kind_offset = int64_t{kind_of_[index]} * workspace.x.rows;
  const Visibility visible = {workspace.begin.data() + kind_offset, workspace.end.data() + kind_offset};
  ops.rms_norm(x, layer.input_norm.data(), config_.norm_eps, normed);
  ops.linear(*layer.qkv, normed, Store::kOverwrite, qkv);
  ops.store_kv(qkv, config_.attention, layer.q_norm.data(), layer.k_norm.data(), config_.norm_eps, rope.table(),
               batch.rows(), plane);
  ops.attention(qkv, config_.attention, batch.rows(), visible, plane, mixed);
  ops.linear(*layer.output, mixed, Store::kAdd, x);
}

void LayerStack::mlp(Ops& ops, const Layer& layer, int32_t n, StackWorkspace& workspace) const {
  const Tensor x = workspace.x.narrow(n);
  ops.rms_norm(x, layer.post_norm.data(), config_.norm_eps, workspace.normed.narrow(n));
  ops.gated_linear(*layer.gate_up, workspace.normed.narrow(n), workspace.gated.narrow(n));
  ops.linear(*layer.down, workspace.gated.narrow(n), Store::kAdd, x);
}

void LayerStack::forward(Ops& ops, const RowBatch& batch, const Rope& rope, const KvMemory& kv,
                         StackWorkspace& workspace, const TapRequest& taps) const {
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    const size_t offset = kind * workspace.x.rows;
    batch.visibility(kinds_[kind], workspace.begin.data() + offset, workspace.end.data() + offset);
  }
  size_t next_tap = 0;
  for (int32_t i = 0; i < config_.n_layers; ++i) {
    attend(ops, layers_[i], i, batch, rope, kv, workspace);
    mlp(ops, layers_[i], batch.n(), workspace);
    for (; next_tap < taps.taps.size() && taps.taps[next_tap].layer == i; ++next_tap) {
      ops.copy(workspace.x.narrow(batch.n()),
               taps.out.narrow(batch.n()).columns(taps.taps[next_tap].column, config_.hidden));
    }
  }
}

size_t LayerStack::weight_bytes() const {
  size_t total = 0;
  for (const Layer& layer : layers_) {
    total += layer.qkv->bytes() + layer.output->bytes() + layer.gate_up->bytes() + layer.down->bytes();
  }
  return total;
}

}  // namespace ashlar
