// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/train/block_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ashlar::cpu {
namespace {

constexpr int32_t kChunkKeys = 128;

/// Rows of a matrix off a power of two, so that they do not share cache sets.
int64_t padded(int64_t n) { return (n + 15) / 16 * 16 + 16; }

}  // namespace

/// One block and one key/value head, in a worker's scratch: the queries of the head's group, one row for each head and
/// slot, and matrices of scores [rows, keys] over the block's context, then over its own keys.
class BlockAttentionRunner::Block {
 public:
  Block(BlockAttentionRunner& runner, const BlockAttention& layout, int32_t block, int32_t head, int32_t worker)
      : runner_(runner), layout_(layout), context_(layout.blocks[block]), head_(head) {
    group_ = layout.heads / layout.kv_heads;
    rows_ = group_ * layout.block;
    first_row_ = block * layout.block;
    stride_ = padded(context_.n + layout.block);
    row_stride_ = padded(layout.head_dim);
    slot_stride_ = padded(layout.block);
    const int64_t room = 2 * rows_ * stride_ + 3 * rows_ * row_stride_ + layout.head_dim * slot_stride_;
    scores_ = runner.scratch_[static_cast<size_t>(worker)].floats(room);
    gradient_ = scores_ + rows_ * stride_;
    queries_ = gradient_ + rows_ * stride_;
    d_out_ = queries_ + rows_ * row_stride_;
    result_ = d_out_ + rows_ * row_stride_;
    own_ = result_ + rows_ * row_stride_;
  }

  int32_t rows() const { return rows_; }
  int32_t own_keys() const { return layout_.context_rows + first_row_; }
  int32_t row_of(int32_t r) const { return first_row_ + r % layout_.block; }
  int32_t head_of(int32_t r) const { return head_ * group_ + r / layout_.block; }
  float* scores(int32_t r) { return scores_ + r * stride_; }
  float* gradient(int32_t r) { return gradient_ + r * stride_; }
  float* d_out(int32_t r) { return d_out_ + r * row_stride_; }
  float* result(int32_t r) { return result_ + r * row_stride_; }
  /// The first key that row r sees.
  int32_t begin(int32_t r) const {
    return layout_.window == 0 ? 0 : std::max(0, context_.n + r % layout_.block - layout_.window + 1);
  }
  /// What follows the last key that row r sees.
  int32_t end(int32_t r) const { return context_.n + (layout_.causal ? r % layout_.block + 1 : layout_.block); }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(layout_.head_dim)); }

  void take_queries(Tensor q) {
    take(q, queries_);
    runner_.kernels_.scale(queries_, rows_ * row_stride_, scale());
  }
  void take_d_out(Tensor d_out) { take(d_out, d_out_); }

  void all_scores(Tensor k) {
    times_context(queries_, runner_.keys_, 0, context_.n, scores_);
    times_own(queries_, k, scores_);
  }
  void all_gradients(Tensor v) {
    times_context(d_out_, runner_.values_, 0, context_.n, gradient_);
    times_own(d_out_, v, gradient_);
  }
  /// Scores and their gradients over keys [start, start + n) of the context alone, from column 0.
  void chunk_products(int32_t start, int32_t n) {
    times_context(queries_, runner_.keys_, start, n, scores_);
    times_context(d_out_, runner_.values_, start, n, gradient_);
  }

  /// result [rows, head_dim] = matrix [rows, keys] x, where x is k or v.
  void sum_over_keys(const float* matrix, Tensor x) {
    const int32_t own = own_keys();
    const int32_t column = head_ * layout_.head_dim;
    if (context_.n > 0) {
      multiply({rows_, layout_.head_dim, context_.n, matrix, stride_, 1, x.row(context_.first) + column, x.stride,
                result_, row_stride_, false});
    }
    multiply({rows_, layout_.head_dim, layout_.block, matrix + context_.n, stride_, 1, x.row(own) + column, x.stride,
              result_, row_stride_, context_.n > 0});
  }
  /// to [keys, head_dim] = or += matrix [rows, keys]^T rows of queries or d_out.
  void sum_over_rows(const float* matrix, int32_t keys, bool of_queries, bool add, float* to, int64_t stride) {
    multiply({keys, layout_.head_dim, rows_, matrix, 1, stride_, of_queries ? queries_ : d_out_, row_stride_, to,
              stride, add});
  }
  const float* matrix_of_scores() const { return scores_; }
  const float* matrix_of_gradients() const { return gradient_; }

 private:
  void multiply(const ProductCall& call) { runner_.kernels_.product(call); }

  void take(Tensor from, float* to) {
    for (int32_t r = 0; r < rows_; ++r) {
      std::memcpy(to + r * row_stride_, from.row(row_of(r)) + head_of(r) * layout_.head_dim,
                  sizeof(float) * static_cast<size_t>(layout_.head_dim));
    }
  }
  void times_context(const float* rows, Scratch& transposed, int32_t start, int32_t n, float* out) {
    if (n == 0) return;
    const float* b = transposed.floats(0) + head_ * layout_.head_dim * runner_.context_stride_ + context_.first + start;
    multiply({rows_, n, layout_.head_dim, rows, row_stride_, 1, b, runner_.context_stride_, out, stride_, false});
  }
  void times_own(const float* rows, Tensor x, float* out) {
    for (int32_t o = 0; o < layout_.block; ++o) {
      const float* from = x.row(own_keys() + o) + head_ * layout_.head_dim;
      for (int32_t i = 0; i < layout_.head_dim; ++i) own_[i * slot_stride_ + o] = from[i];
    }
    multiply({rows_, layout_.block, layout_.head_dim, rows, row_stride_, 1, own_, slot_stride_, out + context_.n,
              stride_, false});
  }

  BlockAttentionRunner& runner_;
  const BlockAttention& layout_;
  BlockContext context_;
  int32_t head_, group_, rows_, first_row_;
  int64_t stride_, row_stride_, slot_stride_;
  float *scores_, *gradient_;          // [rows][stride_]
  float *queries_, *d_out_, *result_;  // [rows][row_stride_]
  float* own_;                         // keys or values of the block, transposed: [head_dim][slot_stride_]
};

void BlockAttentionRunner::transpose_context(Tensor x, const BlockAttention& layout, Scratch& to) {
  context_stride_ = padded(layout.context_rows);
  float* out = to.floats(layout.kv_width() * context_stride_);
  constexpr int32_t kRows = 64;
  pool_.run((layout.context_rows + kRows - 1) / kRows, [&](int32_t item, int32_t /*worker*/) {
    const int32_t first = item * kRows;
    const int32_t last = std::min(first + kRows, layout.context_rows);
    for (int32_t i = 0; i < layout.kv_width(); ++i) {
      for (int32_t t = first; t < last; ++t) out[i * context_stride_ + t] = x.row(t)[i];
    }
  });
}

void BlockAttentionRunner::forward(Tensor q, Tensor k, Tensor v, const BlockAttention& layout, Tensor out,
                                   Tensor log_sums) {
  transpose_context(k, layout, keys_);
  const auto items = static_cast<int32_t>(layout.blocks.size()) * layout.kv_heads;
  pool_.run(items, [&](int32_t item, int32_t worker) {
    const int32_t index = item / layout.kv_heads;
    Block block(*this, layout, index, item % layout.kv_heads, worker);
    const int32_t keys = layout.blocks[index].n + layout.block;
    block.take_queries(q);
    block.all_scores(k);
    for (int32_t r = 0; r < block.rows(); ++r) {
      const int32_t begin = block.begin(r);
      const int32_t end = block.end(r);
      float* row = block.scores(r);
      std::fill_n(row, begin, 0.0F);
      std::fill_n(row + end, keys - end, 0.0F);
      const float highest = kernels_.highest(row + begin, end - begin);
      const float sum = kernels_.exponentials(row + begin, end - begin, highest);
      log_sums.row(block.row_of(r))[block.head_of(r)] = highest + std::log(sum);
      block.gradient(r)[0] = sum;  // no gradient lies there in a forward
    }
    block.sum_over_keys(block.matrix_of_scores(), v);
    for (int32_t r = 0; r < block.rows(); ++r) {
      float* to = out.row(block.row_of(r)) + block.head_of(r) * layout.head_dim;
      std::memcpy(to, block.result(r), sizeof(float) * static_cast<size_t>(layout.head_dim));
      kernels_.scale(to, layout.head_dim, 1.0F / block.gradient(r)[0]);
    }
  });
}

std::vector<BlockAttentionRunner::KeyChunk> BlockAttentionRunner::key_chunks(const BlockAttention& layout) {
  std::vector<KeyChunk> chunks;
  const auto n = static_cast<int32_t>(layout.blocks.size());
  for (int32_t first = 0; first < n;) {
    int32_t last = first;
    int32_t keys = 0;
    for (; last < n && layout.blocks[last].first == layout.blocks[first].first; ++last) {
      keys = std::max(keys, layout.blocks[last].n);
    }
    for (int32_t start = 0; start < keys; start += kChunkKeys) {
      chunks.push_back({first, last, start, std::min(kChunkKeys, keys - start)});
    }
    first = last;
  }
  return chunks;
}

// Two passes, each without a sum that threads share: by blocks for queries and the blocks' own keys, then by keys of
// the context. The second one computes probabilities again.
void BlockAttentionRunner::backward(Tensor d_out, Tensor q, Tensor k, Tensor v, const BlockAttention& layout,
                                    Tensor out, Tensor log_sums, Tensor d_q, Tensor d_k, Tensor d_v) {
  const Tensors t = {d_out, q, k, v, out, log_sums, d_q, d_k, d_v};
  transpose_context(k, layout, keys_);
  transpose_context(v, layout, values_);
  means_.resize(static_cast<size_t>(layout.block_rows()) * layout.heads);
  pool_.run(static_cast<int32_t>(layout.blocks.size()) * layout.kv_heads,
            [&](int32_t item, int32_t worker) { block_gradient(t, layout, item, worker); });
  for (int32_t row = 0; row < layout.context_rows; ++row) {
    std::fill_n(d_k.row(row), layout.kv_width(), 0.0F);
    std::fill_n(d_v.row(row), layout.kv_width(), 0.0F);
  }
  const std::vector<KeyChunk> chunks = key_chunks(layout);
  pool_.run(static_cast<int32_t>(chunks.size()) * layout.kv_heads, [&](int32_t item, int32_t worker) {
    chunk_gradient(t, layout, chunks[static_cast<size_t>(item / layout.kv_heads)], item % layout.kv_heads, worker);
  });
}

void BlockAttentionRunner::block_gradient(const Tensors& t, const BlockAttention& layout, int32_t item,
                                          int32_t worker) {
  const int32_t index = item / layout.kv_heads;
  const int32_t head = item % layout.kv_heads;
  Block block(*this, layout, index, head, worker);
  const int32_t context = layout.blocks[index].n;
  const int32_t keys = context + layout.block;
  block.take_queries(t.q);
  block.take_d_out(t.d_out);
  block.all_scores(t.k);
  block.all_gradients(t.v);
  for (int32_t r = 0; r < block.rows(); ++r) {
    const int32_t row = block.row_of(r);
    const int32_t h = block.head_of(r);
    const int32_t begin = block.begin(r);
    const int32_t end = block.end(r);
    const float mean =
        kernels_.dot(t.d_out.row(row) + h * layout.head_dim, t.out.row(row) + h * layout.head_dim, layout.head_dim);
    means_[static_cast<size_t>(row) * layout.heads + h] = mean;
    std::fill_n(block.scores(r), begin, 0.0F);
    std::fill_n(block.scores(r) + end, keys - end, 0.0F);
    kernels_.exponentials(block.scores(r) + begin, end - begin, t.log_sums.row(row)[h]);
    kernels_.softmax_gradient(block.scores(r), mean, keys, block.gradient(r));
  }
  block.sum_over_keys(block.matrix_of_gradients(), t.k);
  for (int32_t r = 0; r < block.rows(); ++r) {
    float* to = t.d_q.row(block.row_of(r)) + block.head_of(r) * layout.head_dim;
    std::memcpy(to, block.result(r), sizeof(float) * static_cast<size_t>(layout.head_dim));
    kernels_.scale(to, layout.head_dim, block.scale());
  }
  const int32_t column = head * layout.head_dim;
  block.sum_over_rows(block.matrix_of_gradients() + context, layout.block, true, false,
                      t.d_k.row(block.own_keys()) + column, t.d_k.stride);
  block.sum_over_rows(block.matrix_of_scores() + context, layout.block, false, false,
                      t.d_v.row(block.own_keys()) + column, t.d_v.stride);
}

void BlockAttentionRunner::chunk_gradient(const Tensors& t, const BlockAttention& layout, const KeyChunk& chunk,
                                          int32_t head, int32_t worker) {
  for (int32_t index = chunk.first_block; index < chunk.last_block; ++index) {
    const BlockContext& context = layout.blocks[index];
    const int32_t n = std::min(chunk.n, context.n - chunk.start);
    if (n <= 0) continue;
    Block block(*this, layout, index, head, worker);
    if (block.begin(0) >= chunk.start + n) continue;
    block.take_queries(t.q);
    block.take_d_out(t.d_out);
    block.chunk_products(chunk.start, n);
    for (int32_t r = 0; r < block.rows(); ++r) {
      const int32_t row = block.row_of(r);
      const int32_t h = block.head_of(r);
      const int32_t skipped = std::clamp(block.begin(r) - chunk.start, 0, n);
      std::fill_n(block.scores(r), skipped, 0.0F);
      kernels_.exponentials(block.scores(r) + skipped, n - skipped, t.log_sums.row(row)[h]);
      kernels_.softmax_gradient(block.scores(r), means_[static_cast<size_t>(row) * layout.heads + h], n,
                                block.gradient(r));
    }
    const int32_t first = context.first + chunk.start;
    const int32_t column = head * layout.head_dim;
    block.sum_over_rows(block.matrix_of_gradients(), n, true, true, t.d_k.row(first) + column, t.d_k.stride);
    block.sum_over_rows(block.matrix_of_scores(), n, false, true, t.d_v.row(first) + column, t.d_v.stride);
  }
}

}  // namespace ashlar::cpu
