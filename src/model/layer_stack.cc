// SPDX-License-Identifier: Apache-2.0
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
  void add(Tensor& tensor, int32_t cols, DType dtype) {
    const auto line = static_cast<int64_t>(kLine / bytes_of(dtype));
    tensor = {nullptr, rows_, cols, (cols + line - 1) / line * line, dtype};
    parts_.push_back({&tensor, bytes_});
    bytes_ += static_cast<size_t>(tensor.stride * rows_) * bytes_of(dtype);
  }
  std::unique_ptr<Buffer> allocate(Ops& ops) {
    auto buffer = ops.allocate(bytes_);
    for (const auto& [tensor, offset] : parts_) tensor->data = buffer->data() + offset;
    return buffer;
  }

 private:
  static constexpr size_t kLine = 64;  // bytes

  int32_t rows_;
  size_t bytes_ = 0;
  std::vector<std::pair<Tensor*, size_t>> parts_;
};

std::vector<std::string> numbered(const std::string& prefix, int32_t n) {
  std::vector<std::string> bases;
  for (int32_t i = 0; i < n; ++i) bases.push_back(prefix + std::to_string(i) + ".");
  return bases;
}

}  // namespace

StackWorkspace::StackWorkspace(Ops& ops, const LayerStack& stack, int32_t max_rows) {
  const StackConfig& config = stack.config();
  int32_t projected_width = 0;
  int32_t mixed_width = 0;
  for (int32_t i = 0; i < config.n_layers; ++i) {
    projected_width = std::max(projected_width, stack.mixer(i).projected_width());
    mixed_width = std::max(mixed_width, stack.mixer(i).mixed_width());
  }
  Carver carver(max_rows);
  const DType type = ops.activation_type();
  carver.add(x, config.hidden, type);
  carver.add(normed, config.hidden, type);
  carver.add(mixer.projected, projected_width, type);
  carver.add(mixer.mixed, mixed_width, type);
  carver.add(kept, config.hidden, type);
  if (config.moe) carver.add(mlp.scores, config.moe->n_experts, DType::kF32);
  const bool mlps_apart = config.moe && config.moe->adds_apart();
  if (mlps_apart) {
    carver.add(mlp.shared, config.hidden, type);
    carver.add(mlp.gates, 1, type);
  }
  if (config.activation == Activation::kGelu) carver.add(mlp.gate_up, 2 * config.widest_mlp(), type);
  if (config.answers_apart()) carver.add(answer, config.hidden, type);
  if (config.layer_embedding) {
    const int32_t width = config.layer_embedding->width;
    for (Tensor* tensor : {&embeddings.rows, &embeddings.scratch}) carver.add(*tensor, config.n_layers * width, type);
    carver.add(embeddings.gathered, width, type);
    carver.add(embeddings.answer, config.hidden, type);
  }
  if (config.block_conv) {
    carver.add(conv.convolved, config.hidden, type);
    carver.add(conv.added, config.hidden, type);
    carver.add(conv.dynamic, BlockConv::dynamic_width(*config.block_conv, config.hidden), type);
  }
  if (mlps_apart || config.answers_apart() || config.block_conv) {
    zeros_ = ops.allocate(static_cast<size_t>(config.hidden) * bytes_of(type));
    zeros = mlp.zeros = conv.zeros = {zeros_->data(), max_rows, config.hidden, 0, type};
  }
  storage_ = carver.allocate(ops);
  mlp.normed = conv.normed = normed;
  if (config.moe) {
    const int32_t top_k = config.moe->routing.top_k;
    const int64_t choices = int64_t{max_rows} * top_k;
    routes_ = ops.allocate(static_cast<size_t>(choices) * (sizeof(int32_t) + sizeof(float)));
    auto* experts = reinterpret_cast<int32_t*>(routes_->data());
    mlp.routes = {top_k, experts, reinterpret_cast<float*>(experts + choices)};
  }
  const int64_t views = int64_t{config.n_layers} * max_rows;
  visible_ = ops.allocate(2 * sizeof(int32_t) * static_cast<size_t>(views));
  begin = reinterpret_cast<int32_t*>(visible_->data());
  end = begin + views;
}

LayerStack::LayerStack(WeightBinder& binder, const StackConfig& config, const std::string& prefix,
                       const BindMixer& bind_mixer)
    : LayerStack(binder, config, numbered(prefix, config.n_layers), bind_mixer) {}

LayerStack::LayerStack(WeightBinder& binder, const StackConfig& config, const std::vector<std::string>& bases,
                       const BindMixer& bind_mixer)
    : config_(config) {
  // A mixer of outputs alone reads its gate's input where its answer goes, which must not be elsewhere.
  ASHLAR_CHECK(!(config.output_gate && config.answers_apart()));
  // Experts and convolutions read rows that were normed.
  ASHLAR_CHECK(config.input_norms || !(config.moe || config.block_conv));
  for (int32_t i = 0; i < config.n_layers; ++i) {
    const std::string& base = bases[static_cast<size_t>(i)];
    const auto norm = [&](const char* name) { return binder.norm(base + name, config.hidden, config.norms_from_one); };
    Layer layer;
    if (config.input_norms) {
      layer.input_norm = norm(config.names.input_norm);
      layer.post_norm = norm(config.names.post_norm);
    }
    if (config.output_norms) {
      layer.mixer_output_norm = norm(config.names.mixer_output_norm);
      layer.mlp_output_norm = norm(config.names.mlp_output_norm);
    }
    layer.mixer = bind_mixer(binder, base, i);
    layer.mlp = bind_mlp(binder, base, config, i);
    if (config.layer_embedding) layer.embedding = std::make_unique<LayerEmbedding>(binder, config, base, i);
    if (config.layer_scale) layer.scale = binder.vector(base + config.names.layer_scale, 1).front();
    if (config.block_conv) {
      const auto conv = [&](const char* of_base, const char* kernel) {
        return std::make_unique<BlockConv>(binder, base + of_base, base + kernel, *config.block_conv, config.hidden);
      };
      layer.mixer_conv = conv(config.names.mixer_conv_base, config.names.mixer_conv_kernel);
      layer.mlp_conv = conv(config.names.mlp_conv_base, config.names.mlp_conv_kernel);
    }
    layers_.push_back(std::move(layer));

    const auto found = std::find_if(kinds_.begin(), kinds_.end(),
                                    [&](const LayerAttention& kind) { return kind.sees_as(config.layers[i]); });
    kind_of_.push_back(static_cast<int32_t>(found - kinds_.begin()));
    if (found == kinds_.end()) kinds_.push_back(config.layers[i]);
  }
}

void LayerStack::register_state(KvLayout& layout, const std::string& name, Ops& ops) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].mixer->register_state(layout, name + "." + std::to_string(i), ops);
  }
}

void LayerStack::commit(Ops& ops, const KvMemory& kv, const BranchTable& branch, const int32_t* pages) const {
  for (const Layer& layer : layers_) layer.mixer->commit(ops, kv, branch, pages);
}

Tensor LayerStack::forward(Ops& ops, const RowBatch& batch, const KvMemory& kv, StackWorkspace& workspace,
                           const AuxHiddenRequest& aux, const StackEnds& ends) const {
  const bool last_is_aux = !aux.layers.empty() && aux.layers.back().layer == config_.n_layers - 1;
  // What the last layer adds to a row that is no output is not read; only what its mixer keeps is. Convolutions read
  // it.
  const bool few =
      !last_is_aux && !config_.block_conv && kWorthGathering * (batch.n() - batch.n_outputs()) >= batch.n();
  const Pass pass = {batch, kv, workspace, aux, few};
  const Tensor kept = workspace.kept.narrow(batch.n_outputs());
  const Tensor all = workspace.x.narrow(batch.n());
  const Tensor x = few || all.rows != kept.rows ? kept : all;
  const auto run = [&] {
    if (ends.before) ends.before();
    run_layers(ops, pass);
    if (ends.after) ends.after(x);
  };
  ops.run_pass(key_of(pass), std::ref(run));
  workspace.progress_ns.store(now_ns(), std::memory_order_relaxed);
  return x;
}

// Other than the stack's own weights, which stay where they are.
PassKey LayerStack::key_of(const Pass& pass) const {
  const RowBatch& batch = pass.batch;
  PassKey key(this, batch.n());
  key.add(batch.rows());
  key.add(batch.outputs());
  key.add(batch.n_outputs());
  if (batch.n_outputs() > 0) key.add(batch.first_output());
  key.add(&pass.kv);
  key.add(pass.workspace.x.data);
  key.add(pass.aux.out);
  for (const AuxLayer& layer : pass.aux.layers) key.add((int64_t{layer.layer} << 32U) + layer.column);
  return key;
}

void LayerStack::run_layers(Ops& ops, const Pass& pass) const {
  const auto& [batch, kv, workspace, aux, few] = pass;
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    const int64_t offset = static_cast<int64_t>(kind) * workspace.x.rows;
    ops.visibility(batch.rows(), kinds_[kind].window, kinds_[kind].causal, workspace.begin + offset,
                   workspace.end + offset);
  }
  for (int32_t i = 0; i < config_.n_layers; ++i) {
    const bool for_outputs = few && i + 1 == config_.n_layers;
    for_outputs ? run_for_outputs(ops, i, pass) : run_layer(ops, i, pass);
  }
  if (!few && batch.n_outputs() != batch.n()) {
    ops.gather_rows(workspace.x.narrow(batch.n()), batch.outputs(), workspace.kept.narrow(batch.n_outputs()));
  }
}

MixerCall LayerStack::mixer_call(Ops& ops, int32_t index, const Pass& pass) const {
  const StackWorkspace& workspace = pass.workspace;
  const int32_t n = pass.batch.n();
  const std::span<const AuxLayer> before = pass.aux.after(index - 1);
  const bool copies = before.size() == 1 && !config_.block_conv;  // what a convolution makes of rows is no copy
  if (!copies) copy_aux_hidden(ops, index - 1, pass);
  const int64_t seen = int64_t{kind_of_[static_cast<size_t>(index)]} * workspace.x.rows;
  return {pass.batch,
          {workspace.x.narrow(n), layers_[static_cast<size_t>(index)].input_norm.data(), config_.norm_eps},
          pass.kv,
          workspace.mixer,
          {workspace.begin + seen, workspace.end + seen},
          copies ? pass.aux.out.narrow(n).columns(before[0].column, config_.hidden) : Tensor{}};
}

template <class Add>
void LayerStack::add_answer(Ops& ops, const DeviceVector& norm, const StackWorkspace& workspace, Tensor x,
                            Add add) const {
  if (!config_.answers_apart()) return add(x);
  const Tensor answer = workspace.answer.narrow(x.rows);
  ops.copy(workspace.zeros.narrow(x.rows), answer);
  add(answer);
  if (x.rows == 0) return;
  if (norm.data() != nullptr) ops.rms_norm(answer, norm.data(), config_.norm_eps, answer);
  if (config_.residual_scale != 1.0F) ops.scale(answer, config_.residual_scale);
  ops.reduce_add(answer, x);
}

void LayerStack::run_layer(Ops& ops, int32_t index, const Pass& pass) const {
  const Tensor x = pass.workspace.x.narrow(pass.batch.n());
  const Layer& layer = layers_[static_cast<size_t>(index)];
  MixerCall call = mixer_call(ops, index, pass);
  add_answer(ops, layer.mixer_output_norm, pass.workspace, x, [&](Tensor to) {
    if (layer.mixer_conv == nullptr) return layer.mixer->forward(ops, call, to);
    layer.mixer_conv->around(ops, pass.batch.rows(), call.in, pass.workspace.conv, to,
                             [&](const Input& in, Tensor added) {
                               call.in = in;
                               layer.mixer->forward(ops, call, added);
                             });
  });
  feed_forward(ops, index, pass, x);
  finish_layer(ops, index, pass, nullptr, x);
  if (index + 1 == config_.n_layers) copy_aux_hidden(ops, index, pass);
}

void LayerStack::run_for_outputs(Ops& ops, int32_t index, const Pass& pass) const {
  const Tensor x = pass.workspace.kept.narrow(pass.batch.n_outputs());
  const MixerCall call = mixer_call(ops, index, pass);
  ops.gather_rows(call.in.x, pass.batch.outputs(), x);
  const Layer& layer = layers_[static_cast<size_t>(index)];
  add_answer(ops, layer.mixer_output_norm, pass.workspace, x,
             [&](Tensor to) { layer.mixer->forward_outputs(ops, call, to); });
  if (x.rows == 0) return;
  feed_forward(ops, index, pass, x);
  finish_layer(ops, index, pass, pass.batch.outputs(), x);
}

void LayerStack::finish_layer(Ops& ops, int32_t index, const Pass& pass, const int32_t* outputs, Tensor x) const {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  if (layer.embedding) layer.embedding->add(ops, pass.workspace.embeddings, outputs, x);
  if (layer.scale != 1.0F) ops.scale(x, layer.scale);
}

void LayerStack::feed_forward(Ops& ops, int32_t index, const Pass& pass, Tensor x) const {
  const Layer& layer = layers_[index];
  const Input normed = {x, layer.post_norm.data(), config_.norm_eps};
  add_answer(ops, layer.mlp_output_norm, pass.workspace, x, [&](Tensor to) {
    if (layer.mlp_conv == nullptr) return layer.mlp->forward(ops, normed, pass.workspace.mlp, to);
    layer.mlp_conv->around(ops, pass.batch.rows(), normed, pass.workspace.conv, to, [&](const Input& in, Tensor added) {
      layer.mlp->forward(ops, in, pass.workspace.mlp, added);
    });
  });
  pass.workspace.progress_ns.store(now_ns(), std::memory_order_relaxed);
}

void LayerStack::copy_aux_hidden(Ops& ops, int32_t index, const Pass& pass) const {
  const int32_t n = pass.batch.n();
  for (const AuxLayer& layer : pass.aux.after(index)) {
    ops.copy(pass.workspace.x.narrow(n), pass.aux.out.narrow(n).columns(layer.column, config_.hidden));
  }
}

bool LayerStack::is_recurrent() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const Layer& layer) { return layer.mixer->is_recurrent(); });
}

size_t LayerStack::weight_bytes() const {
  size_t total = 0;
  for (const Layer& layer : layers_) {
    total += layer.mixer->bytes() + layer.mlp->bytes();
    if (layer.embedding) total += layer.embedding->bytes();
    if (layer.mixer_conv) total += layer.mixer_conv->bytes() + layer.mlp_conv->bytes();
  }
  return total;
}

}  // namespace ashlar
