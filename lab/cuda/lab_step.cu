// SPDX-License-Identifier: Apache-2.0
// A whole step of a decoder in one graph, made of the kernels of this lab, with random weights: how long it takes for
// rows of several kinds, and whether a row's logits keep their bits from one kind to another.
#include <cmath>
#include <cstring>
#include <map>

#include "attention_few.cuh"
#include "attention_tiled.cuh"
#include "lab.h"
#include "product_plan.h"
#include "sample.cuh"
#include "small_ops.cuh"

using lab::bf16;
using namespace ashlar::cuda;

namespace {

struct Shape {
  const char* name;
  int hidden, layers, heads, kv_heads, width, vocabulary;
};
constexpr int kHeadDim = 128, kMostRows = 4096, kMostLogits = 512, kBlocks = 132;

template <class T>
void copy_to(T* to, const std::vector<T>& values) {
  CHECK(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, int shared, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared), config.stream = stream;
  config.attrs = &attribute, config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

struct Linear {
  bf16* weight;
  int n, k;
};

/// Tokens first .. first + count - 1 of a sequence.
struct Span {
  int sequence, first, count;
};

class Decoder {
 public:
  Decoder(const Shape& shape, int sequences, int most_positions) : shape_(shape), max_pages_((most_positions + 15) / 16) {
    const auto linear = [&](int n, int k, uint64_t seed) {
      return Linear{lab::random_bf16(int64_t{(n + 63) / 64} * 64 * k, seed, 0.02F), n, k};
    };
    const int q = shape.heads * kHeadDim, kv = shape.kv_heads * kHeadDim;
    for (int l = 0; l < shape.layers; ++l) {
      qkv_.push_back(linear(q + 2 * kv, shape.hidden, 10 * l + 1));
      o_.push_back(linear(shape.hidden, q, 10 * l + 2));
      gate_up_.push_back(linear(2 * shape.width, shape.hidden, 10 * l + 3));
      down_.push_back(linear(shape.hidden, shape.width, 10 * l + 4));
    }
    head_weight_ = linear(shape.vocabulary, shape.hidden, 5);
    std::vector<float> ones(std::max(shape.hidden, kHeadDim));
    for (size_t i = 0; i < ones.size(); ++i) ones[i] = 1.0F + lab::random_value(6, i, 0.1F);
    norm_ = lab::allocate<float>(ones.size());
    copy_to(norm_, ones);
    std::vector<float> cosines(int64_t{most_positions} * kHeadDim / 2), sines(cosines.size());
    for (int p = 0; p < most_positions; ++p) {
      for (int i = 0; i < kHeadDim / 2; ++i) {
        const double angle = p * std::pow(1e6, -2.0 * i / kHeadDim);
        cosines[p * kHeadDim / 2 + i] = static_cast<float>(std::cos(angle));
        sines[p * kHeadDim / 2 + i] = static_cast<float>(std::sin(angle));
      }
    }
    cos_ = lab::allocate<float>(cosines.size()), sin_ = lab::allocate<float>(sines.size());
    copy_to(cos_, cosines), copy_to(sin_, sines);
    page_stride_ = int64_t{shape.kv_heads} * 2 * kPageTokens * kHeadDim * 2;
    const int pages = sequences * max_pages_;
    plane_ = page_stride_ * pages;
    kv_ = reinterpret_cast<char*>(lab::random_bf16(plane_ * shape.layers / 2, 9, 1.0F));
    std::vector<int32_t> table(pages);
    for (int i = 0; i < pages; ++i) table[i] = i;
    for (int i = pages - 1; i > 0; --i) std::swap(table[i], table[lab::mix(i) % (i + 1)]);
    page_tables_ = lab::allocate<int32_t>(pages);
    copy_to(page_tables_, table);
    const auto rows = [](int width) { return lab::allocate<bf16>(int64_t{kMostRows} * width); };
    x_ = rows(shape.hidden), normed_ = rows(shape.hidden), projected_ = rows(q + 2 * kv), mixed_ = rows(q), gated_ = rows(shape.width);
    logits_ = lab::allocate<float>(int64_t{kMostLogits} * shape.vocabulary);
    for (int32_t** to : {&ids_, &positions_, &tables_, &begin_, &end_, &chosen_}) *to = lab::allocate<int32_t>(kMostRows);
    blocks_ = lab::allocate<RowBlock>(kMostRows);
    draws_ = lab::allocate<Draw>(kMostRows);
    const int64_t splits = (most_positions + kSplit - 1) / kSplit;
    partial_ = lab::allocate<float>(int64_t{kMostLogits} * shape.heads * splits * kHeadDim);
    extent_ = lab::allocate<float2>(int64_t{kMostLogits} * shape.heads * splits);
  }

  double weight_bytes() const {
    double bytes = 2.0 * head_weight_.n * head_weight_.k;
    for (const auto* list : {&qkv_, &o_, &gate_up_, &down_}) {
      for (const Linear& w : *list) bytes += 2.0 * w.n * w.k;
    }
    return bytes;
  }
  const float* logits() const { return logits_; }

  /// Uploads what the rows are. Tokens are a function of sequence and position.
  void set(const std::vector<Span>& spans) {
    std::vector<int32_t> ids, positions, tables, begin, end;
    std::vector<Draw> draws;
    tokens_ = 0;
    longest_ = 0;
    for (const Span& span : spans) {
      for (int i = 0; i < span.count; ++i) {
        const int position = span.first + i;
        ids.push_back(static_cast<int32_t>(lab::mix(span.sequence * 100000 + position) % shape_.vocabulary));
        positions.push_back(position), tables.push_back(span.sequence), begin.push_back(0), end.push_back(position + 1);
        draws.push_back({7, position, 0.0F, 0});
        longest_ = std::max(longest_, position + 1);
      }
      tokens_ = std::max(tokens_, span.count);
    }
    rows_ = static_cast<int>(ids.size());
    const int group = shape_.heads / shape_.kv_heads;
    splits_ = (longest_ + kSplit - 1) / kSplit;
    // The same bits by every kind of attention: which one is a matter of time.
    const int sequences = static_cast<int>(spans.size());
    // The same bits by every kind of attention: which one is a matter of time.
    if (tokens_ * group <= 16 || (tokens_ <= 16 && sequences == 1 && splits_ <= 8)) {
      kind_ = Kind::kFew;
    } else if (tokens_ <= 16) {
      kind_ = sequences * shape_.kv_heads < 132 ? Kind::kSplit : Kind::kWhole;
    } else {
      kind_ = Kind::kWide;
    }
    const int most = kind_ == Kind::kFew ? 16 / group : kind_ == Kind::kWide ? 128 / group : 64 / group;
    std::vector<RowBlock> blocks;
    int row = 0;
    for (const Span& span : spans) {
      for (int i = 0; i < span.count; i += most) {
        const int n = std::min(most, span.count - i);
        blocks.push_back({row + i, n, span.sequence, 0, span.first + i + n, span.first});
      }
      row += span.count;
    }
    n_blocks_ = static_cast<int>(blocks.size());
    copy_to(ids_, ids), copy_to(positions_, positions), copy_to(tables_, tables), copy_to(begin_, begin), copy_to(end_, end);
    copy_to(blocks_, blocks), copy_to(draws_, draws);
  }

  /// Logits of the last `logit_rows` rows.
  void run(cudaStream_t stream, int logit_rows) {
    // Without the attribute of dependent launches: kernels of this step must not start before the last one ended.
    embed<<<static_cast<unsigned>(rows_), 128, 0, stream>>>(reinterpret_cast<const char*>(head_weight_.weight), shape_.hidden, ids_, 1.0F,
                                                            shape_.hidden, x_, int64_t{shape_.hidden});
    CHECK(cudaGetLastError());
    for (int l = 0; l < shape_.layers; ++l) {
      norm(stream, x_, normed_, rows_);
      product<Finish::kBf16>(stream, qkv_[l], normed_, projected_, qkv_[l].n, rows_);
      finish(stream, l);
      attend(stream, l);
      product<Finish::kAddBf16>(stream, o_[l], mixed_, x_, shape_.hidden, rows_);
      norm(stream, x_, normed_, rows_);
      product<Finish::kGatedBf16>(stream, gate_up_[l], normed_, gated_, shape_.width, rows_);
      product<Finish::kAddBf16>(stream, down_[l], gated_, x_, shape_.hidden, rows_);
    }
    norm(stream, x_ + int64_t{rows_ - logit_rows} * shape_.hidden, normed_, logit_rows);
    product<Finish::kFloat>(stream, head_weight_, normed_, logits_, shape_.vocabulary, logit_rows);
    launch(choose, dim3(static_cast<unsigned>(logit_rows * kChooseBlocks)), kChooseThreads, 0, stream, static_cast<const float*>(logits_),
           int64_t{shape_.vocabulary}, shape_.vocabulary, static_cast<const Draw*>(draws_), chosen_);
  }

 private:
  enum class Kind { kFew, kSplit, kWhole, kWide };

  void norm(cudaStream_t stream, bf16* from, bf16* to, int rows) {
    const int64_t stride = shape_.hidden;
    if (shape_.hidden <= 1024) {
      launch(rms_norm<128, 1>, dim3(static_cast<unsigned>(rows)), 128, 0, stream, from, stride, static_cast<const bf16*>(nullptr),
             int64_t{0}, static_cast<const float*>(norm_), 1e-6F, shape_.hidden, to, stride);
    } else {
      launch(rms_norm<512, 1>, dim3(static_cast<unsigned>(rows)), 512, 0, stream, from, stride, static_cast<const bf16*>(nullptr),
             int64_t{0}, static_cast<const float*>(norm_), 1e-6F, shape_.hidden, to, stride);
    }
  }

  template <Finish kFinish>
  void product(cudaStream_t stream, const Linear& w, const bf16* x, void* out, int64_t out_stride, int rows) {
    const int splits = splits_of(w.n, w.k);
    const Tile& tile = tile_for(rows, w.n, splits, kBlocks);
    const auto key = std::make_tuple(x, w.k, tile.tokens);
    auto found = maps_.find(key);
    if (found == maps_.end()) found = maps_.emplace(key, lab::rows_map(x, kMostRows, w.k, w.k, tile.tokens)).first;
    CHECK(launch_product<kFinish>(stream, tile, found->second, {w.weight, out, out_stride, rows, w.n, w.k, splits}, kBlocks));
  }

  void finish(cudaStream_t stream, int l) {
    FinishCall call = {};
    call.qkv = projected_, call.stride = qkv_[l].n, call.rows = rows_, call.q_heads = shape_.heads, call.n_kv_heads = shape_.kv_heads;
    call.q_norm = call.k_norm = norm_, call.eps = 1e-6F, call.cos = cos_, call.sin = sin_, call.positions = positions_;
    call.tables = tables_, call.page_tables = page_tables_, call.max_pages = max_pages_;
    call.kv = kv_ + l * plane_, call.page_stride = page_stride_;
    const int heads = shape_.heads + 2 * shape_.kv_heads;
    launch(finish_qkv<kHeadDim>, dim3(static_cast<unsigned>((rows_ * heads + 3) / 4)), 128, 0, stream, call);
  }

  void attend(cudaStream_t stream, int l) {
    FewCall few = {};
    AttentionCall& call = few.attention;
    few.q = projected_, few.q_stride = qkv_[l].n;
    call.kv = kv_ + l * plane_, call.page_stride = page_stride_, call.page_tables = page_tables_, call.max_pages = max_pages_;
    call.begin = begin_, call.end = end_, call.blocks = blocks_, call.n_blocks = n_blocks_, call.n_kv_heads = shape_.kv_heads;
    call.group = shape_.heads / shape_.kv_heads, call.scale = static_cast<float>(1.4426950408889634 / std::sqrt(1.0 * kHeadDim));
    call.out = mixed_, call.out_stride = int64_t{shape_.heads} * kHeadDim, call.partial = partial_, call.extent = extent_;
    call.max_splits = splits_;
    if (kind_ == Kind::kFew) {
      if (splits_ * shape_.kv_heads * n_blocks_ > kBlocks) {
        few_kernel<2>(stream, few);
      } else {
        few_kernel<4>(stream, few);
      }
    } else if (kind_ == Kind::kSplit) {
      tiled<1, false>(stream, call);
    } else if (kind_ == Kind::kWhole) {
      tiled<1, true>(stream, call);
    } else {
      tiled<2, true>(stream, call);
    }
    if ((kind_ == Kind::kFew && splits_ > 1) || kind_ == Kind::kSplit) {
      launch(combine_splits<kHeadDim>, dim3(static_cast<unsigned>((rows_ * shape_.heads + 3) / 4)), 128, 0, stream, call, rows_);
    }
  }

  template <int kStages>
  void few_kernel(cudaStream_t stream, const FewCall& few) {
    using Few = AttentionFew<kHeadDim, kStages>;
    raise<Few>(attention_few_kernel<Few>);
    launch(attention_few_kernel<Few>,
           dim3(static_cast<unsigned>(splits_), static_cast<unsigned>(shape_.kv_heads), static_cast<unsigned>(n_blocks_)), Few::kThreads,
           Few::kSharedBytes, stream, few);
  }

  template <int kGroups, bool kWhole>
  void tiled(cudaStream_t stream, const AttentionCall& call) {
    using Tiled = Attention<kHeadDim, kGroups, kWhole>;
    raise<Tiled>(attention_kernel<Tiled>);
    const int tokens = 64 * kGroups / call.group;
    auto& map = query_maps_[tokens];
    if (!map.second) {
      map = {lab::queries_map(projected_, kMostRows, shape_.heads, kHeadDim, qkv_[0].n, call.group, tokens), true};
    }
    const int works = call.n_blocks * shape_.kv_heads * (kWhole ? 1 : call.max_splits);
    launch(attention_kernel<Tiled>, dim3(static_cast<unsigned>(std::min(works, kBlocks))), Tiled::kThreads, Tiled::kSharedBytes, stream,
           map.first, call);
  }

  template <class Kernel, class Function>
  static void raise(Function* kernel) {
    static const cudaError_t once = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::kSharedBytes);
    CHECK(once);
  }

  Shape shape_;
  int max_pages_, rows_ = 0, tokens_ = 0, longest_ = 0, splits_ = 1, n_blocks_ = 0;
  Kind kind_ = Kind::kFew;
  std::vector<Linear> qkv_, o_, gate_up_, down_;
  Linear head_weight_;
  float *norm_, *cos_, *sin_, *logits_, *partial_;
  float2* extent_;
  char* kv_;
  int64_t page_stride_, plane_;
  bf16 *x_, *normed_, *projected_, *mixed_, *gated_;
  int32_t *page_tables_, *ids_, *positions_, *tables_, *begin_, *end_, *chosen_;
  RowBlock* blocks_;
  Draw* draws_;
  std::map<std::tuple<const bf16*, int, int>, CUtensorMap> maps_;
  std::map<int, std::pair<CUtensorMap, bool>> query_maps_;
};

bool try_shape(const Shape& shape, double copy) {
  constexpr int kSequences = 32, kContext = 1000;
  Decoder decoder(shape, kSequences, kContext + 3100);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const int64_t width = shape.vocabulary;
  std::printf("%s: %.2f GB of weights a step\n", shape.name, decoder.weight_bytes() * 1e-9);
  // Bits. What a row gives alone is kept, and looked for in company.
  const auto step = [&](const std::vector<Span>& spans, int logit_rows) {
    decoder.set(spans);
    decoder.run(stream, logit_rows);
    CHECK(cudaStreamSynchronize(stream));
  };
  float* alone = lab::allocate<float>(40 * width);
  for (int i = 0; i < 40; ++i) {  // sequence 3, one token a step
    step({{3, kContext + i, 1}}, 1);
    CHECK(cudaMemcpy(alone + i * width, decoder.logits(), width * 4, cudaMemcpyDeviceToDevice));
  }
  uint64_t hash = 14695981039346656037ull;  // of all logits, to lay beside another card's
  for (const float x : lab::download(alone, 40 * width)) hash = (hash ^ __builtin_bit_cast(uint32_t, x)) * 1099511628211ull;
  std::printf("  hash of 40 tokens' logits: %016llx\n", static_cast<unsigned long long>(hash));
  const auto sample = lab::download(alone, width);
  int odd = 0;
  double square = 0;
  for (const float x : sample) odd += !std::isfinite(x), square += static_cast<double>(x) * x;
  std::printf("  logits: rms %.3f, not finite %d\n  words that differ from one token a step:", std::sqrt(square / width), odd);
  unsigned long long wrong = odd;
  const auto look = [&](const char* name, int row, int token, int count) {
    const auto found = lab::differences(reinterpret_cast<const uint32_t*>(decoder.logits() + row * width),
                                        reinterpret_cast<const uint32_t*>(alone + token * width), count * width);
    std::printf(" %s %llu,", name, found);
    wrong += found;
  };
  step({{3, kContext, 16}}, 16);
  look("16 rows", 0, 0, 16);
  step({{3, kContext, 7}}, 7);
  look("7 rows", 0, 0, 7);
  std::vector<Span> spans;
  for (int s = 0; s < kSequences; ++s) spans.push_back({s, kContext + (s == 3 ? 9 : s % 5), 1});
  step(spans, 32);
  look("32 sequences", 3, 9, 1);
  spans.clear();
  for (int s = 0; s < 8; ++s) spans.push_back({s, kContext + (s == 3 ? 0 : s), 16});
  step(spans, 128);
  look("8 x 16 rows", 48, 0, 16);
  spans.clear();
  for (int s = 0; s < kSequences; ++s) spans.push_back({s, kContext + (s == 3 ? 0 : s), 16});
  step(spans, 512);
  look("32 x 16 rows", 48, 0, 16);
  spans = {{5, kContext - 600, 333}, {3, kContext, 40}, {6, kContext, 1}, {7, 200, 500}};
  step(spans, 512);
  // Rows 333 .. 372 of 874, of which the last 512 have logits: none of sequence 3 is among the first 362.
  look("in a chunk of 874", 0, 29, 11);
  spans = {{3, kContext, 40}};
  step(spans, 40);
  look("40 rows", 0, 0, 40);
  std::printf("\n");
  // Time.
  double plain = 0;
  const auto time = [&](const char* name, const std::vector<Span>& rows, int logit_rows) {
    decoder.set(rows);
    const double us = lab::time_graph(1, [&](cudaStream_t on, int) { decoder.run(on, logit_rows); }, 9);
    if (plain == 0) plain = us;
    int count = 0;
    for (const Span& span : rows) count += span.count;
    const double flop = 2.0 * count * (decoder.weight_bytes() / 2 - 1.0 * shape.vocabulary * shape.hidden) +
                        2.0 * logit_rows * shape.vocabulary * shape.hidden;
    std::printf("  %-34s %9.1f us = %.3f plain steps, %8.0f rows/s, weights at %.2f of copy, %4.0f TFLOP/s\n", name, us, us / plain,
                count / us * 1e6, decoder.weight_bytes() / us * 1e-6 / copy, flop / us * 1e-6);
  };
  const auto each = [&](int sequences, int count, int first) {
    std::vector<Span> made;
    for (int s = 0; s < sequences; ++s) made.push_back({s, first, count});
    return made;
  };
  time("1 row, context 128", each(1, 1, 128), 1);
  time("1 row, context 1000", each(1, 1, kContext), 1);
  time("1 row, context 4000", each(1, 1, 4000), 1);
  time("16 rows of 1, context 128", each(1, 16, 128), 16);
  time("16 rows of 1, context 1000", each(1, 16, kContext), 16);
  time("8 sequences, context 150", each(8, 1, 150), 8);
  time("32 sequences, context 150", each(32, 1, 150), 32);
  time("32 sequences, context 1000", each(32, 1, kContext), 32);
  time("8 x 16 rows, context 1000", each(8, 16, kContext), 128);
  time("32 x 16 rows, context 1000", each(32, 16, kContext), 512);
  time("prefill 512", {{0, 0, 512}}, 1);
  time("prefill 4096", {{0, 0, 4096}}, 1);
  CHECK(cudaFree(alone));
  return wrong == 0;
}

}  // namespace

int main() {
  const double copy = lab::copy_bandwidth();
  bool good = try_shape({"8B", 4096, 36, 32, 8, 12288, 151936}, copy);
  std::fflush(stdout);
  good = try_shape({"0.6B", 1024, 28, 16, 8, 3072, 151936}, copy) && good;
  std::printf(good ? "steps: all bits equal\n" : "steps: BITS DIFFER\n");
  return good ? 0 : 1;
}
