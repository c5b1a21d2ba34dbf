#include "model/layer_stack.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace ashlar {
namespace {

// Rows of a part that waits for others in every layer. More of them compute so long that a worker on a slow core is
// better helped out in every op.
constexpr int32_t kMaxShared = 64;
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
  parts.resize(static_cast<size_t>(ops.threads()));
  work.resize(static_cast<size_t>(max_rows) + 1);
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
    largest_layer_ = std::max(largest_layer_, layer.qkv->bytes() + layer.output->bytes() + layer.mlp->bytes());
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

Input LayerStack::input(int32_t index, const Pass& pass, const RowPart& part) const {
  return {pass.workspace.x.part(part.first, part.n), layers_[index].input_norm.data(), config_.norm_eps};
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

Visibility LayerStack::visible(int32_t index, const Pass& pass, int32_t first) const {
  const int64_t at = int64_t{kind_of_[index]} * pass.workspace.x.rows + first;
  return {pass.workspace.begin.data() + at, pass.workspace.end.data() + at};
}

void LayerStack::store_keys(Ops& ops, int32_t index, const Pass& pass, const RowPart& part) const {
  const Rows rows = pass.batch.rows().part(part.first, part.n);
  ops.linear_kv(*layers_[index].qkv, input(index, pass, part), pass.workspace.qkv.part(part.first, part.n),
                store(index, pass, rows));
}

void LayerStack::attend(Ops& ops, int32_t index, const Pass& pass, const RowPart& part, int32_t first) const {
  const StackWorkspace& workspace = pass.workspace;
  const int32_t n = part.first + part.n - first;
  ops.attention(workspace.qkv.part(first, n), config_.attention, pass.batch.rows().part(first, n),
                visible(index, pass, first), pass.kv.plane(first_plane_ + index), workspace.mixed.part(first, n));
}

Tensor LayerStack::forward(Ops& ops, const RowBatch& batch, const Rope& rope, const KvMemory& kv,
                           StackWorkspace& workspace, const AuxHiddenRequest& aux) const {
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    const size_t offset = kind * workspace.x.rows;
    batch.visibility(kinds_[kind], workspace.begin.data() + offset, workspace.end.data() + offset);
  }
  const bool last_is_aux = !aux.layers.empty() && aux.layers.back().layer == config_.n_layers - 1;
  // Of a row that is no output nobody reads what the last layer adds to it, only its K and V.
  const bool few = !last_is_aux && kWorthGathering * (batch.n() - batch.n_outputs()) >= batch.n();
  const Pass pass = {batch, rope, kv, workspace, aux, few};
  // A mixture reads an expert's weights once for all rows.
  const int32_t lanes = config_.moe ? 1 : ops.lanes(batch.n(), largest_layer_);
  const std::span<RowPart> parts = std::span(workspace.parts).first(static_cast<size_t>(lanes));
  const bool apart = lanes > 1 && cut(batch, workspace, parts);
  if (apart || (lanes > 1 && batch.n() <= lanes * kMaxShared)) {
    run_side_by_side(ops, pass, parts, apart);
  } else {
    for (int32_t i = 0; i < config_.n_layers; ++i) whole_layer(ops, i, pass);
  }
  const Tensor kept = workspace.kept.narrow(batch.n_outputs());
  if (few) return kept;
  const Tensor x = workspace.x.narrow(batch.n());
  if (x.rows == kept.rows) return x;
  ops.gather_rows(x, batch.outputs(), kept);
  return kept;
}

bool LayerStack::cut(const RowBatch& batch, StackWorkspace& workspace, std::span<RowPart> parts) const {
  // With its softmax and its small tiles a key takes a row as long as so many times its products elsewhere: 6 ns a
  // layer of 4 heads of 64, where the other 786 K products of the row take 1.8 us.
  constexpr int64_t kProductsOfKey = 5;
  const int64_t hidden = config_.hidden;
  const int64_t products =
      hidden * (2 * config_.attention.q_width() + 2 * config_.attention.kv_width()) + 3 * hidden * config_.intermediate;
  const int64_t keys_of_row = products / (kProductsOfKey * 2 * config_.attention.q_width()) + 1;
  const int32_t* begin = workspace.begin.data();
  const int32_t* end = workspace.end.data();
  for (int32_t r = 0; r < batch.n(); ++r) {
    workspace.work[r + 1] = workspace.work[r] + keys_of_row + end[r] - begin[r];
  }
  return batch.cut(parts, std::span(workspace.work).first(static_cast<size_t>(batch.n()) + 1));
}

void LayerStack::run_side_by_side(Ops& ops, const Pass& pass, std::span<const RowPart> parts, bool apart) const {
  struct Context {
    const LayerStack* self;
    const Pass* pass;
    std::span<const RowPart> parts;
    int32_t first, last;  // layers; -1: the keys of the first one
  } context = {this, &pass, parts, -1, config_.n_layers};
  // Parts that share a sequence wait for each other's keys in every layer.
  for (; context.first < config_.n_layers; context.first = context.last) {
    context.last = apart ? config_.n_layers : context.first + 1;
    ops.side_by_side(
        static_cast<int32_t>(parts.size()),
        [](void* pointer, int32_t i, Ops& lane) {
          const auto& c = *static_cast<const Context*>(pointer);
          const RowPart& part = c.parts[static_cast<size_t>(i)];
          for (int32_t layer = c.first; layer < c.last; ++layer) {
            if (layer < 0) {
              c.self->store_keys(lane, 0, *c.pass, part);
            } else {
              c.self->finish_layer(lane, layer, *c.pass, part);
            }
          }
        },
        &context);
  }
}

void LayerStack::whole_layer(Ops& ops, int32_t index, const Pass& pass) const {
  const RowPart all = pass.batch.whole();
  const bool last = index + 1 == config_.n_layers;
  const Layer& layer = layers_[index];
  const StackWorkspace& workspace = pass.workspace;
  const Tensor x = workspace.x.narrow(all.n);
  if (last && pass.few) {
    copy_aux_hidden(ops, index - 1, pass, all, x);
    store_keys(ops, index, pass, all);
    return finish_layer(ops, index, pass, all);
  }
  // Auxiliary hidden states between two layers are copied where the second one reads its rows anyway.
  const std::span<const AuxLayer> after = pass.aux.after(index - 1);
  const bool copies = after.size() == 1;
  if (!copies) copy_aux_hidden(ops, index - 1, pass, all, x);
  const Rows rows = pass.batch.rows();
  ops.self_attention({*layer.qkv, *layer.output, input(index, pass, all), store(index, pass, rows),
                      visible(index, pass, 0), workspace.qkv.narrow(all.n), workspace.mixed.narrow(all.n),
                      copies ? pass.aux.out.narrow(all.n).columns(after[0].column, config_.hidden) : Tensor{}},
                     x);
  feed_forward(ops, index, pass, x);
  if (last) copy_aux_hidden(ops, index, pass, all, x);
}

void LayerStack::finish_layer(Ops& ops, int32_t index, const Pass& pass, const RowPart& part) const {
  const StackWorkspace& workspace = pass.workspace;
  const bool last = index + 1 == config_.n_layers;
  const bool few = last && pass.few;
  if (few && part.n_outputs == 0) return;
  const int32_t* const outputs = pass.batch.outputs() + part.first_output;
  attend(ops, index, pass, part, few ? outputs[0] : part.first);
  Tensor x = workspace.x.part(part.first, part.n);
  Tensor mixed = workspace.mixed.part(part.first, part.n);
  if (few) {
    mixed = workspace.qkv.part(part.first, part.n_outputs).columns(0, mixed.cols);
    x = workspace.kept.part(part.first_output, part.n_outputs);
    ops.gather_rows(workspace.mixed.narrow(pass.batch.n()), outputs, mixed);
    ops.gather_rows(workspace.x.narrow(pass.batch.n()), outputs, x);
  }
  ops.linear(*layers_[index].output, mixed, Store::kAdd, x);
  feed_forward(ops, index, pass, x);
  copy_aux_hidden(ops, index, pass, part, x);
  if (!last) store_keys(ops, index + 1, pass, part);
}

void LayerStack::feed_forward(Ops& ops, int32_t index, const Pass& pass, Tensor x) const {
  const Layer& layer = layers_[index];
  layer.mlp->forward(ops, {x, layer.post_norm.data(), config_.norm_eps}, pass.workspace.mlp, x);
  pass.workspace.progress_ns.store(now_ns(), std::memory_order_relaxed);
}

void LayerStack::copy_aux_hidden(Ops& ops, int32_t index, const Pass& pass, const RowPart& part, Tensor x) const {
  for (const AuxLayer& layer : pass.aux.after(index)) {
    ops.copy(x, pass.aux.out.part(part.first, part.n).columns(layer.column, config_.hidden));
  }
}

size_t LayerStack::weight_bytes() const {
  size_t total = 0;
  for (const Layer& layer : layers_) total += layer.qkv->bytes() + layer.output->bytes() + layer.mlp->bytes();
  return total;
}

}  // namespace ashlar
