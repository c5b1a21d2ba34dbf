// SPDX-License-Identifier: Apache-2.0
#pragma once
// What training a drafter asks of a device, next to Ops: forward and backward of each layer's parts, the loss and the
// optimiser. Tensors are fp32 (products of `cuda` round their factors), on some devices also bf16. `ref` is the
// specification. Rows need not be invariant here, but a result depends neither on the number of threads nor on chance:
// every sum has a fixed order.

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "device/ops.h"
#include "device/train_heads.h"

namespace ashlar {

/// What the rows of one block see besides themselves: context rows [first, first + n), row `first` at position 0 of its
/// document. The block's rows stand at positions n, n + 1, ...
struct BlockContext {
  int32_t first = 0;
  int32_t n = 0;
};

/// Attention of the blocks of a batch. Keys and values have a row for each context row, then one for each block row;
/// queries have the block rows alone. A row sees its block's context and rows of its own block.
struct BlockAttention {
  int32_t heads = 0;
  int32_t kv_heads = 0;  ///< heads [h * heads / kv_heads, ...) share key/value head h
  int32_t head_dim = 0;
  int32_t block = 0;         ///< rows of a block
  int32_t context_rows = 0;  ///< of all documents
  /// A row sees the context at distances below this; 0: all of it. At least `block`.
  int32_t window = 0;
  bool causal = false;  ///< a row sees those of its block up to itself; otherwise every one
  /// In ascending order of documents, and within a document of n.
  std::span<const BlockContext> blocks;

  int32_t block_rows() const { return static_cast<int32_t>(blocks.size()) * block; }
  int32_t width() const { return heads * head_dim; }
  int32_t kv_width() const { return kv_heads * head_dim; }
};

/// Cosines and sines [positions, head_dim / 2] of a rotary embedding, and the position of each row.
struct RowRotation {
  const float* cos = nullptr;
  const float* sin = nullptr;
  const int32_t* positions = nullptr;
};

/// What a loss finds out about each row.
struct TokenLoss {
  float loss = 0;
  /// That a draft drawn from the row is accepted: the label's, or the overlap of two distributions.
  float probability = 0;
  int32_t best = 0;  ///< id of the highest logit, the lowest of equals
};

/// How far a drafter's distribution q is from the target's, p. Their overlap, the sum of min(p, q), is the chance that
/// a draft drawn from q is accepted (Leviathan et al., 2023).
enum class DistributionLoss : uint8_t {
  kKl,       ///< the divergence, sum of p ln(p / q)
  kTv,       ///< total variation, 1 - overlap
  kOverlap,  ///< -ln overlap
  kLk,       ///< kKl of the share e^(-3 overlap), a constant to the gradient, and kTv of the rest (arXiv 2602.23881)
};

/// A row's loss by its two sums, and its gradient by those of the sums: d loss = of_divergence * d divergence +
/// of_overlap * d overlap. To logits z of q these are q - p and q ([q < p] - the sum of q where q < p).
struct DistributionTerms {
  double loss = 0;
  double of_divergence = 0;
  double of_overlap = 0;
};
inline DistributionTerms distribution_terms(DistributionLoss loss, double divergence, double overlap) {
  constexpr double kLeast = 1e-6;  // distributions without anything in common would divide by 0
  const double share = std::exp(-3 * overlap);
  switch (loss) {
    case DistributionLoss::kKl:
      return {divergence, 1, 0};
    case DistributionLoss::kTv:
      return {1 - overlap, 0, -1};
    case DistributionLoss::kOverlap:
      return {-std::log(std::max(overlap, kLeast)), 0, -1 / std::max(overlap, kLeast)};
    case DistributionLoss::kLk:
      break;
  }
  return {share * divergence + (1 - share) * (1 - overlap), share, share - 1};
}

/// Rows whose logits, hidden head^T, have a loss: against labels as cross_entropy() has it, or where `target` has rows
/// against the distributions of target head^T, as distribution_loss() has it.
struct LossRows {
  Tensor hidden;                    ///< [m, k]
  Tensor head;                      ///< [vocab, k]
  const int32_t* labels = nullptr;  ///< [m]
  Tensor target = {};               ///< [m, k or fewer], whose logits are of as many columns of head, its first
  DistributionLoss loss = DistributionLoss::kKl;

  bool is_of_labels() const { return target.rows == 0; }
  Tensor head_of_target() const { return head.columns(0, target.cols); }
};

struct AdamW {
  double learning_rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;  ///< decoupled: values shrink by learning_rate * weight_decay
  int64_t step = 1;         ///< counted from 1, for the bias correction
};

/// Which product of a and b.
enum class ProductKind : uint8_t {
  kOuter,  ///< a b^T, as linear()
  kPlain,  ///< a b, as linear_input_gradient()
  kInner,  ///< a^T b, as linear_weight_gradient()
};

/// How much of a batch is computed together: what fills a device.
struct TrainPieces {
  int32_t blocks = 512;  ///< of some documents, through the whole drafter: activations of every layer exist for these
  int32_t rows = 1024;   ///< of their rows, between two passes of attention
};

/// One thread at a time. Tensors are in the device's memory, also in what Ops of the same device allocated and computed
/// before a download of it, and never overlap unless stated. They are fp32; where takes() says so, every Tensor may
/// also be bf16 but d_weight and log_sums: each value is rounded when it is stored, sums and what is computed in
/// between are fp32, and of a product with one factor in bf16 the other is rounded to it.
class TrainOps {
 public:
  virtual ~TrainOps() = default;

  virtual bool takes(DType dtype) const { return dtype == DType::kF32; }
  virtual TrainPieces pieces() const { return {}; }

  virtual std::unique_ptr<Buffer> allocate(size_t bytes) = 0;
  /// Zeroed memory that the host too may read and write, after wait() and until the next op.
  virtual std::unique_ptr<Buffer> allocate_shared(size_t bytes) = 0;
  /// Returns when all that was asked for is done.
  virtual void wait() = 0;
  virtual void upload(const void* from, std::byte* to, size_t bytes) = 0;
  virtual void download(const std::byte* from, void* to, size_t bytes) = 0;

  /// out [m, n] = x [m, k] weight [n, k]^T, or that is added to out.
  virtual void linear(Tensor x, Tensor weight, Store store, Tensor out) = 0;
  /// d_x [m, k] = d_out [m, n] weight [n, k], or that is added to d_x.
  virtual void linear_input_gradient(Tensor d_out, Tensor weight, Store store, Tensor d_x) = 0;
  /// d_weight [n, k] += d_out [m, n]^T x [m, k].
  virtual void linear_weight_gradient(Tensor d_out, Tensor x, Tensor d_weight) = 0;

  /// n products of one shape, stored: a, b and out have n matrices each, one after the other. out is fp32, a and b are
  /// of one type. Here one by one.
  virtual void products(ProductKind kind, int32_t n, Tensor a, Tensor b, Tensor out) {
    for (int32_t i = 0; i < n; ++i) {
      const auto part = [&](Tensor all) { return all.part(i * (all.rows / n), all.rows / n); };
      if (kind == ProductKind::kOuter) {
        linear(part(a), part(b), Store::kOverwrite, part(out));
      } else if (kind == ProductKind::kPlain) {
        linear_input_gradient(part(a), part(b), Store::kOverwrite, part(out));
      } else {
        for (int32_t r = 0; r < part(out).rows; ++r) clear(part(out).row(r), out.cols);
        linear_weight_gradient(part(a), part(b), part(out));
      }
    }
  }

  /// out [m, n] = x / sqrt(mean(x^2) + eps) * weight [n], row by row.
  virtual void rms_norm(Tensor x, const float* weight, float eps, Tensor out) = 0;
  /// Of the same x: d_x [m, n], stored or added, and d_weight [n] added to. d_x may be d_out.
  virtual void rms_norm_gradient(Tensor d_out, Tensor x, const float* weight, float eps, Store store, Tensor d_x,
                                 float* d_weight) = 0;

  /// Rotates each head of x [m, heads * head_dim] in place: halves i and i + head_dim / 2 by the angle of the position.
  virtual void rope(Tensor x, int32_t head_dim, const RowRotation& rotation) = 0;
  /// The gradient of rope(): rotates back, in place.
  virtual void rope_gradient(Tensor d_x, int32_t head_dim, const RowRotation& rotation) = 0;

  /// out [m, n] = silu(gate) * up.
  virtual void silu_mul(Tensor gate, Tensor up, Tensor out) = 0;
  /// d_gate and d_up [m, n] of the same gate and up; d_up may be d_out.
  virtual void silu_mul_gradient(Tensor d_out, Tensor gate, Tensor up, Tensor d_gate, Tensor d_up) = 0;

  /// out [m, n] = sigmoid(gate) * x.
  virtual void sigmoid_mul(Tensor gate, Tensor x, Tensor out) = 0;
  /// d_gate and d_x [m, n] of the same gate and x; d_x may be d_out.
  virtual void sigmoid_mul_gradient(Tensor d_out, Tensor gate, Tensor x, Tensor d_gate, Tensor d_x) = 0;

  /// out [block rows, heads * head_dim] = softmax(q k^T / sqrt(head_dim)) v. k and v: [context + block rows, kv_heads *
  /// head_dim]. log_sums [block rows, heads]: what the gradient needs of each softmax.
  virtual void attention(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out, Tensor log_sums) = 0;
  /// d_q, d_k and d_v, overwritten, of the same q, k, v, out and log_sums. Probabilities are computed anew.
  virtual void attention_gradient(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out,
                                  Tensor log_sums, Tensor d_q, Tensor d_k, Tensor d_v) = 0;

  /// Loss of hidden [m, k] under logits hidden head [vocab, k]^T against labels [m], for each row; d_hidden [m, k] is
  /// the gradient of each row's own loss, to be weighted by the caller. d_hidden may have no rows: not wanted. Logits
  /// exist for a few rows at a time; the likeliest of each row are left in `candidates`, [m, n], where n is not 0.
  /// `losses` are the host's, and there when the call returns.
  virtual void cross_entropy(Tensor hidden, Tensor head, const int32_t* labels, TokenLoss* losses, Tensor d_hidden,
                             const Candidates& candidates) = 0;

  /// The same of hidden [m, k] against the distributions of logits target [m, k] head^T: there is no label, and
  /// `probability` is the overlap. A target of fewer columns has the logits of as many of head, its first.
  virtual void distribution_loss(Tensor hidden, Tensor target, Tensor head, DistributionLoss loss, TokenLoss* losses,
                                 Tensor d_hidden, const Candidates& candidates) = 0;

  /// d_weight [vocab, n] += the sum over rows r of d logits[r]^T x[r], x [m, n], with d logits[r] the gradient of the
  /// row's own loss to its logits, which are computed again: the gradient of columns of `head` where x is those of
  /// `hidden`, each row times its weight.
  virtual void head_gradient(const LossRows& rows, Tensor x, Tensor d_weight) = 0;

  /// Cross-entropy of each row's scores S over its candidates against the label, which takes the last place where it is
  /// missing; `probability` is the label's, `best` the candidate with the highest score but for a label that was put
  /// there. Candidates' logits become the gradient of the row's loss to S. `losses` are the host's, as before.
  virtual void candidate_loss(const ChoosingRows& rows, TokenLoss* losses) = 0;
  /// After that: gradients of the sum of the rows' losses, each times its weight, overwritten.
  virtual void candidate_gradient(const ChoosingRows& rows, const float* weights, const CandidateGradients& out) = 0;

  /// Convolves the rows of each block, stored or added.
  virtual void block_conv(const BlockConvolution& rows, Store store, Tensor out) = 0;
  /// d_x and d_dynamic, overwritten, and d_base [taps, channels], added to. d_x is not d_out.
  virtual void block_conv_gradient(Tensor d_out, const BlockConvolution& rows, Tensor d_x, Tensor d_dynamic,
                                   float* d_base) = 0;

  /// table[ids[r * n + j]] += scale * factors[r * n + j] * rows[r] for n ids a row, those of one place in their order;
  /// no factors: 1 each. fp32. `ids`: the host's.
  virtual void add_rows(Tensor rows, std::span<const int32_t> ids, const float* factors, float scale, Tensor table) = 0;

  /// out[r] = scale * table[ids[r]].
  virtual void gather(Tensor table, const int32_t* ids, float scale, Tensor out) = 0;
  /// out[ids[r]] = rows[r] * scales[r], and the other rows of out become zero; or that is added. Ids differ.
  virtual void scatter(Tensor rows, const int32_t* ids, const float* scales, Store store, Tensor out) = 0;

  /// out = x, of the same shape. x may be bf16 on every device, as the target's hidden states are on some.
  virtual void copy(Tensor x, Tensor out) = 0;
  /// values = 0.
  virtual void clear(float* values, int64_t n) = 0;
  /// Sum of squares of n values.
  virtual double squared_norm(const float* values, int64_t n) = 0;
  /// Each of n arrays of `count` values, one after the other, is divided by its norm, or by `least` where that is more.
  virtual void normalise(float* values, int64_t count, int32_t n, double least) {
    for (int32_t i = 0; i < n; ++i, values += count) {
      scale(values, count, static_cast<float>(1 / std::max(std::sqrt(squared_norm(values, count)), least)));
    }
  }
  /// values *= factor.
  virtual void scale(float* values, int64_t n, float factor) = 0;
  /// out = alpha * x + beta * y, n values each; out may be x or y.
  virtual void combine(float alpha, const float* x, float beta, const float* y, int64_t n, float* out) = 0;
  /// One step of Adam with decoupled weight decay (Loshchilov and Hutter, 2019) for n values and their moments.
  virtual void adamw(const AdamW& step, const float* gradient, int64_t n, float* values, float* m, float* v) = 0;
};

/// Makes the ops of a device by its name, as make_device() takes it. Throws Error("device", ...) for another name or an
/// instruction set that the machine lacks.
std::unique_ptr<TrainOps> make_train_ops(const std::string& device, const DeviceOptions& options);

}  // namespace ashlar
