// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/train/cuda_train_ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/error.h"
#include "device/cuda/cuda_found.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/train/cublas.h"
#include "device/cuda/train/shared_buffer.h"
#include "device/cuda/train/train_kernels.h"
#include "device/row_groups.h"

namespace ashlar {
namespace cuda {
namespace {

/// Floats of logits that exist at once: 1 GiB.
constexpr int64_t kLogits = int64_t{1} << 28;

/// Logits in pieces of a multiple of this many rows, which the tiles of products fill.
constexpr int64_t kLogitRows = 128;

Matrix rows_of(Tensor x) { return {x.data, x.rows, x.cols, x.stride, x.dtype == DType::kF32}; }
Cublas::Side as_it_is(Tensor x) { return {x, false}; }
Cublas::Side transposed(Tensor x) { return {x, true}; }

RowDistance distance_of(DistributionLoss loss) {
  switch (loss) {
    case DistributionLoss::kKl:
      return RowDistance::kKl;
    case DistributionLoss::kTv:
      return RowDistance::kTv;
    case DistributionLoss::kOverlap:
      return RowDistance::kOverlap;
    case DistributionLoss::kLk:
      break;
  }
  return RowDistance::kLk;
}

class CudaTrainOps final : public TrainOps {
 public:
  explicit CudaTrainOps(int32_t device) : memory_(device) {}

  bool takes(DType /*dtype*/) const override { return true; }
  TrainPieces pieces() const override { return {1024, 16384}; }
  std::unique_ptr<Buffer> allocate(size_t bytes) override { return memory_.allocate(bytes); }
  std::unique_ptr<Buffer> allocate_shared(size_t bytes) override {
    return std::make_unique<SharedBuffer>(memory_.device(), bytes);
  }
  void wait() override { check(cudaStreamSynchronize(memory_.queue()), "training on the GPU"); }
  void upload(const void* from, std::byte* to, size_t bytes) override { memory_.upload(from, to, bytes); }
  void download(const std::byte* from, void* to, size_t bytes) override { memory_.download(from, to, bytes); }

  void linear(Tensor x, Tensor weight, Store store, Tensor out) override {
    product(as_it_is(x), transposed(weight), x.cols, store, out);
  }
  void linear_input_gradient(Tensor d_out, Tensor weight, Store store, Tensor d_x) override {
    product(as_it_is(d_out), as_it_is(weight), weight.rows, store, d_x);
  }
  void linear_weight_gradient(Tensor d_out, Tensor x, Tensor d_weight) override {
    product(transposed(d_out), as_it_is(x), x.rows, Store::kAdd, d_weight);
  }

  void products(ProductKind kind, int32_t n, Tensor a, Tensor b, Tensor out) override {
    const Cublas::Side left = {a, kind == ProductKind::kInner}, right = {b, kind == ProductKind::kOuter};
    cublas_.products(n, left, right, kind == ProductKind::kInner ? a.rows / n : a.cols, out);
  }

  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override {
    if (x.rows == 0) return;
    train_rms_norm(stream(), rows_of(x), weight, eps, rows_of(out));
    check_launch("rms_norm");
  }
  void rms_norm_gradient(Tensor d_out, Tensor x, const float* weight, float eps, Store store, Tensor d_x,
                         float* d_weight) override {
    if (x.rows == 0) return;
    NormGradient call = {rows_of(d_out), rows_of(x), rows_of(d_x), weight, eps, store == Store::kAdd, d_weight};
    ASHLAR_CHECK_LE(x.cols, kMaxNormColumns);
    call.partials = floats(partials_, int64_t{kNormPartials} * x.cols);
    train_rms_norm_gradient(stream(), call);
    check_launch("rms_norm_gradient");
  }

  void rope(Tensor x, int32_t head_dim, const RowRotation& rotation) override { rotate(x, head_dim, rotation, 1); }
  void rope_gradient(Tensor d_x, int32_t head_dim, const RowRotation& rotation) override {
    rotate(d_x, head_dim, rotation, -1);
  }

  void silu_mul(Tensor gate, Tensor up, Tensor out) override {
    if (out.rows == 0) return;
    train_silu_mul(stream(), rows_of(gate), rows_of(up), rows_of(out));
    check_launch("silu_mul");
  }
  void silu_mul_gradient(Tensor d_out, Tensor gate, Tensor up, Tensor d_gate, Tensor d_up) override {
    if (d_out.rows == 0) return;
    train_silu_mul_gradient(stream(), rows_of(d_out), rows_of(gate), rows_of(up), rows_of(d_gate), rows_of(d_up));
    check_launch("silu_mul_gradient");
  }
  void sigmoid_mul(Tensor gate, Tensor x, Tensor out) override {
    if (out.rows == 0) return;
    train_sigmoid_mul(stream(), rows_of(gate), rows_of(x), rows_of(out));
    check_launch("sigmoid_mul");
  }
  void sigmoid_mul_gradient(Tensor d_out, Tensor gate, Tensor x, Tensor d_gate, Tensor d_x) override {
    if (d_out.rows == 0) return;
    train_sigmoid_mul_gradient(stream(), rows_of(d_out), rows_of(gate), rows_of(x), rows_of(d_gate), rows_of(d_x));
    check_launch("sigmoid_mul_gradient");
  }

  void attention(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums) override {
    if (layout.blocks.empty()) return;
    train_attention(stream(), attention_call(q, k, v, layout, out, log_sums));
    check_launch("attention");
  }
  void attention_gradient(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out,
                          Tensor log_sums, Tensor d_q, Tensor d_k, Tensor d_v) override {
    if (k.rows == 0) return;
    TrainAttention call = attention_call(q, k, v, layout, out, log_sums);
    call.d_out = rows_of(d_out), call.d_q = rows_of(d_q), call.d_k = rows_of(d_k), call.d_v = rows_of(d_v);
    call.means = floats(means_, int64_t{q.rows} * layout.heads);
    if (const int64_t sums = partial_sums_of(call); sums > 0) call.partial_sums = floats(partials_, sums);
    train_attention_gradient(stream(), call);
    check_launch("attention_gradient");
  }

  void cross_entropy(Tensor hidden, Tensor head, const int32_t* labels, TokenLoss* losses, Tensor d_hidden,
                     const Candidates& candidates) override {
    by_logits({hidden, head, labels}, candidates, losses, d_hidden.rows != 0, [&](int32_t first, Tensor gradient) {
      linear_input_gradient(gradient, head, Store::kOverwrite, d_hidden.part(first, gradient.rows));
    });
  }
  void distribution_loss(Tensor hidden, Tensor target, Tensor head, DistributionLoss loss, TokenLoss* losses,
                         Tensor d_hidden, const Candidates& candidates) override {
    const LossRows rows = {hidden, head, nullptr, target, loss};
    by_logits(rows, candidates, losses, d_hidden.rows != 0, [&](int32_t first, Tensor gradient) {
      linear_input_gradient(gradient, head, Store::kOverwrite, d_hidden.part(first, gradient.rows));
    });
  }
  void head_gradient(const LossRows& rows, Tensor x, Tensor d_weight) override {
    by_logits(rows, {}, nullptr, true, [&](int32_t first, Tensor gradient) {
      linear_weight_gradient(gradient, x.part(first, gradient.rows), d_weight);
    });
  }

  void candidate_loss(const ChoosingRows& rows, TokenLoss* losses) override {
    if (rows.n_rows() == 0) return;
    ASHLAR_CHECK_LE(rows.candidates.n, kMaxCandidates);
    RowLoss* const found = losses_of(rows.n_rows());
    train_candidate_loss(stream(), candidates_call(rows), found);
    check_launch("candidate_loss");
    read_losses(found, rows.n_rows(), losses);
  }
  void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out) override {
    if (rows.n_rows() == 0) return;
    train_candidate_gradient(stream(), candidates_call(rows), weights,
                             {rows_of(out.hidden), rows_of(out.projected), rows_of(out.before), rows_of(out.after)});
    check_launch("candidate_gradient");
  }
  void block_conv(const BlockConvolution& rows, Store store, Tensor out) override {
    if (out.rows == 0) return;
    train_block_conv(stream(), conv_call(rows), store == Store::kAdd, rows_of(out));
    check_launch("block_conv");
  }
  void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic,
                           float* d_base) override {
    if (d_x.rows == 0) return;
    float* const partials = floats(partials_, int64_t{kConvPartials} * rows.conv.taps * d_x.cols);
    train_block_conv_gradient(stream(), conv_call(rows), rows_of(d_out), rows_of(d_x), rows_of(d_dynamic), d_base,
                              partials);
    check_launch("block_conv_gradient");
  }
  void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table) override {
    if (ids.empty()) return;
    const RowGroups groups = group_rows(ids, table.rows);
    std::vector<int32_t> firsts, begins;  // of parts
    for (size_t g = 0; g < groups.ids.size(); ++g) {
      firsts.push_back(static_cast<int32_t>(begins.size()));
      for (int32_t at = groups.begins[g]; at < groups.begins[g + 1]; at += kEntriesOfPart) begins.push_back(at);
    }
    const auto parts = static_cast<int32_t>(begins.size());
    firsts.push_back(parts);
    begins.push_back(groups.begins.back());
    std::vector<int32_t> all;
    for (const auto& list : {std::cref(groups.ids), std::cref(firsts), std::cref(begins), std::cref(groups.entries)}) {
      all.insert(all.end(), list.get().begin(), list.get().end());
    }
    auto* const placed = static_cast<int32_t*>(groups_.reserve(sizeof(int32_t) * all.size()));
    memory_.upload(all.data(), reinterpret_cast<std::byte*>(placed), sizeof(int32_t) * all.size());
    RowSums sums;
    sums.groups = groups.n(), sums.parts = parts;
    sums.ids = placed, sums.firsts = sums.ids + groups.n(), sums.begins = sums.firsts + groups.n() + 1;
    sums.entries = sums.begins + parts + 1;
    sums.factors = factors, sums.n = static_cast<int32_t>(ids.size()) / rows.rows, sums.scale = scale;
    sums.sums = floats(partials_, int64_t{parts} * rows.cols);
    train_add_rows(stream(), rows_of(rows), sums, rows_of(table));
    check_launch("add_rows");
  }

  void gather(Tensor table, const int32_t* ids, float scale, Tensor out) override {
    if (out.rows == 0) return;
    train_gather(stream(), rows_of(table), ids, scale, rows_of(out));
    check_launch("gather");
  }
  void scatter(Tensor rows, const int32_t* ids, const float* scales, Store store, Tensor out) override {
    if (out.rows == 0) return;
    if (store == Store::kOverwrite) {
      const size_t each = bytes_of(out.dtype);
      check(cudaMemset2DAsync(out.data, each * static_cast<size_t>(out.stride), 0, each * static_cast<size_t>(out.cols),
                              static_cast<size_t>(out.rows), stream()),
            "cudaMemset2DAsync");
    }
    if (rows.rows > 0) train_scatter(stream(), rows_of(rows), ids, scales, store == Store::kAdd, rows_of(out));
    check_launch("scatter");
  }
  void copy(Tensor x, Tensor out) override {
    if (out.rows == 0) return;
    train_copy(stream(), rows_of(x), rows_of(out));
    check_launch("copy");
  }

  void clear(float* values, int64_t n) override {
    check(cudaMemsetAsync(values, 0, sizeof(float) * static_cast<size_t>(n), stream()), "cudaMemsetAsync");
  }
  double squared_norm(const float* values, int64_t n) override {
    auto* const partials = static_cast<double*>(squares_.reserve(sizeof(double) * kSquaredPartials));
    train_squares(stream(), values, n, partials);
    check_launch("squared_norm");
    std::vector<double> read(kSquaredPartials);
    memory_.download(reinterpret_cast<const std::byte*>(partials), read.data(), sizeof(double) * read.size());
    double sum = 0;
    for (const double part : read) sum += part;
    return sum;
  }
  void normalise(float* values, int64_t count, int32_t n, double least) override {
    auto* const partials =
        static_cast<double*>(squares_.reserve(sizeof(double) * kSquaredPartials * static_cast<size_t>(n)));
    train_normalise(stream(), values, count, n, static_cast<float>(least), partials);
    check_launch("normalise");
  }
  void scale(float* values, int64_t n, float factor) override {
    train_scale(stream(), values, n, factor);
    check_launch("scale");
  }
  void combine(float alpha, const float* x, float beta, const float* y, int64_t n, float* out) override {
    train_combine(stream(), alpha, x, beta, y, n, out);
    check_launch("combine");
  }
  void adamw(const AdamW& step, const float* gradient, int64_t n, float* values, float* m, float* v) override {
    const auto steps = static_cast<double>(step.step);
    TrainAdamW call;
    call.beta1 = static_cast<float>(step.beta1);
    call.beta2 = static_cast<float>(step.beta2);
    call.eps = static_cast<float>(step.eps);
    call.step_size = static_cast<float>(step.learning_rate / (1 - std::pow(step.beta1, steps)));
    call.inverse_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, steps)));
    call.shrink = static_cast<float>(1 - step.learning_rate * step.weight_decay);
    train_adamw(stream(), call, gradient, n, values, m, v);
    check_launch("adamw");
  }

 private:
  cudaStream_t stream() { return memory_.stream(); }
  /// Losses of rows, in pieces of as many as have room; `losses` may be null. Where `differentiates`, then(first row,
  /// gradient [n, vocab] of each row's own loss to its logits, whose place it takes) for each piece.
  template <class Then>
  void by_logits(const LossRows& of, const Candidates& candidates, TokenLoss* losses, bool differentiates,
                 const Then& then) {
    const Tensor hidden = of.hidden, head = of.head;
    if (hidden.rows == 0) return;
    ASHLAR_CHECK_LE(candidates.n, kMaxCandidates);
    const int64_t kinds = of.is_of_labels() ? 1 : 2;
    const int64_t together = std::max<int64_t>(kLogits / kinds / head.rows / kLogitRows, 1) * kLogitRows;
    const auto rows = static_cast<int32_t>(std::min<int64_t>(together, hidden.rows));
    const int64_t stride = (int64_t{head.rows} + 3) / 4 * 4;
    float* const memory = floats(logits_, kinds * rows * stride);
    RowLoss* const found = losses_of(hidden.rows);
    for (int32_t first = 0; first < hidden.rows; first += rows) {
      const int32_t n = std::min(rows, hidden.rows - first);
      const Tensor logits = {memory, n, head.rows, stride};
      const Tensor of_target = {memory + (kinds - 1) * rows * stride, n, head.rows, stride};
      Tensor gradient = logits;
      if (head.dtype == DType::kBF16) gradient.dtype = DType::kBF16, gradient.stride = 2 * stride;
      if (!differentiates) gradient.rows = 0;
      linear(hidden.part(first, n), head, Store::kOverwrite, logits);
      const int64_t at = int64_t{first} * candidates.n;
      const RowCandidates listed = {candidates.n, candidates.ids + at, candidates.logits + at};
      if (of.is_of_labels()) {
        train_cross_entropy(stream(), rows_of(logits), of.labels + first, rows_of(gradient), listed, found + first);
      } else {
        linear(of.target.part(first, n), of.head_of_target(), Store::kOverwrite, of_target);
        train_distribution_loss(stream(), rows_of(logits), rows_of(of_target), distance_of(of.loss), rows_of(gradient),
                                listed, found + first);
      }
      check_launch("the loss of rows of logits");
      if (differentiates) then(first, gradient);
    }
    if (losses != nullptr) read_losses(found, hidden.rows, losses);
  }
  RowLoss* losses_of(int32_t rows) {
    return static_cast<RowLoss*>(losses_.reserve(sizeof(RowLoss) * static_cast<size_t>(rows)));
  }
  void read_losses(const RowLoss* found, int32_t rows, TokenLoss* losses) {
    std::vector<RowLoss> read(static_cast<size_t>(rows));
    memory_.download(reinterpret_cast<const std::byte*>(found), read.data(), sizeof(RowLoss) * read.size());
    for (size_t i = 0; i < read.size(); ++i) losses[i] = {read[i].loss, read[i].probability, read[i].best};
  }
  static TrainCandidates candidates_call(const ChoosingRows& rows) {
    TrainCandidates call;
    call.n = rows.candidates.n, call.ids = rows.candidates.ids, call.logits = rows.candidates.logits;
    call.labels = rows.labels, call.before = rows.before, call.scale = rows.scale;
    call.hidden = rows_of(rows.hidden), call.head = rows_of(rows.head), call.projected = rows_of(rows.projected);
    call.predecessors = rows_of(rows.predecessors), call.successors = rows_of(rows.successors);
    return call;
  }
  static TrainConv conv_call(const BlockConvolution& rows) {
    return {rows_of(rows.x), rows_of(rows.dynamic), rows.conv.taps, rows.conv.group, rows.block, rows.conv.base};
  }

  static float* floats(Scratch& scratch, int64_t n) {
    return static_cast<float*>(scratch.reserve(sizeof(float) * static_cast<size_t>(n)));
  }

  void product(Cublas::Side a, Cublas::Side b, int32_t k, Store store, Tensor out) {
    if (out.rows == 0 || (k == 0 && store == Store::kAdd)) return;
    if (a.tensor.dtype != b.tensor.dtype) {
      Tensor& wide = (a.tensor.dtype == DType::kF32 ? a : b).tensor;
      wide = narrowed(wide);
    }
    cublas_.product(a, b, k, store == Store::kAdd, out);
  }
  /// In bf16, until the next product.
  Tensor narrowed(Tensor x) {
    const int64_t stride = (int64_t{x.cols} + 7) / 8 * 8;
    const size_t bytes = bytes_of(DType::kBF16) * static_cast<size_t>(stride) * static_cast<size_t>(x.rows);
    const Tensor out = {narrowed_.reserve(bytes), x.rows, x.cols, stride, DType::kBF16};
    copy(x, out);
    return out;
  }

  void rotate(Tensor x, int32_t head_dim, const RowRotation& rotation, float sign) {
    if (x.rows == 0) return;
    train_rope(stream(), rows_of(x), head_dim, rotation.cos, rotation.sin, rotation.positions, sign);
    check_launch("rope");
  }

  TrainAttention attention_call(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out,
                                Tensor log_sums) {
    ASHLAR_CHECK_LE(layout.head_dim, kMaxTrainHead);
    static_assert(sizeof(BlockContext) == sizeof(TrainBlock));
    const size_t bytes = layout.blocks.size_bytes();
    auto* const blocks = static_cast<TrainBlock*>(blocks_.reserve(bytes));
    memory_.upload(layout.blocks.data(), reinterpret_cast<std::byte*>(blocks), bytes);
    TrainAttention call;
    call.heads = layout.heads, call.kv_heads = layout.kv_heads, call.head_dim = layout.head_dim;
    call.block = layout.block, call.n_blocks = static_cast<int32_t>(layout.blocks.size());
    call.context_rows = layout.context_rows, call.window = layout.window, call.causal = layout.causal;
    call.blocks = blocks;
    for (size_t i = 0, begin = 0; i < layout.blocks.size(); ++i) {
      if (layout.blocks[i].first != layout.blocks[begin].first) begin = i;
      call.max_blocks = std::max(call.max_blocks, static_cast<int32_t>(i - begin) + 1);
    }
    call.q = rows_of(q), call.k = rows_of(k), call.v = rows_of(v);
    call.out = rows_of(out), call.log_sums = rows_of(log_sums);
    return call;
  }

  Memory memory_;
  Cublas cublas_{memory_};
  Scratch narrowed_{memory_}, means_{memory_}, partials_{memory_}, logits_{memory_}, losses_{memory_},
      squares_{memory_}, blocks_{memory_}, groups_{memory_};
};

}  // namespace
}  // namespace cuda

std::unique_ptr<TrainOps> make_cuda_train_ops(const DeviceOptions& /*options*/, int32_t device) {
  cuda::require_device(device);
  return std::make_unique<cuda::CudaTrainOps>(device);
}

}  // namespace ashlar
