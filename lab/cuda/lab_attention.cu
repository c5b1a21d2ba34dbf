// SPDX-License-Identifier: Apache-2.0
// Attention over pages: right, the same bits for a row in any company and by either configuration, and how fast.
#include <cmath>

#include "attention_few.cuh"
#include "attention_tiled.cuh"
#include "lab.h"

using lab::bf16;
using namespace ashlar::cuda;

namespace {

constexpr int kKvHeads = 8;

/// K and V of every position of every sequence, as a function, so that the host knows them.
__host__ __device__ float kv_value(int sequence, int position, int head, bool value, int dim) {
  return lab::random_value(3 + sequence, ((int64_t{position} * 64 + head) * 2 + value) * 512 + dim, 1.0F);
}

__global__ void fill_pages(char* kv, int64_t page_stride, const int32_t* page_table, int sequence, int length, int head_dim) {
  const int position = blockIdx.x;
  char* page = kv + page_table[position / kPageTokens] * page_stride;
  for (int i = threadIdx.x; i < kKvHeads * 2 * head_dim; i += blockDim.x) {
    const int head = i / (2 * head_dim), value = i / head_dim % 2, dim = i % head_dim;
    *reinterpret_cast<bf16*>(page + page_place(head, value, position % kPageTokens, dim, head_dim)) =
        __float2bfloat16_rn(kv_value(sequence, position, head, value, dim));
  }
}

struct Row {
  int sequence, begin, end;
};

template <class T>
T* upload(const std::vector<T>& values) {
  T* to = lab::allocate<T>(values.size());
  CHECK(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return to;
}

/// Sequences in pages, some rows of them, and a call that describes these.
struct Scene {
  int head_dim, group, rows, max_pages, max_splits, planes;
  std::vector<Row> row_list;
  int64_t page_stride;
  char* kv;  // planes one after another
  int64_t plane_bytes;
  bf16* q;
  AttentionCall call = {};

  Scene(int head_dim_, int group_, const std::vector<int>& lengths, std::vector<Row> list, int planes_ = 1, bool fill = true)
      : head_dim(head_dim_), group(group_), rows(static_cast<int>(list.size())), planes(planes_), row_list(std::move(list)) {
    max_pages = 0;
    int pages = 1;
    for (const int length : lengths) {
      max_pages = std::max(max_pages, (length + 15) / 16);
      pages += (length + 15) / 16;
    }
    page_stride = int64_t{kKvHeads} * 2 * 16 * head_dim * 2;
    plane_bytes = page_stride * pages;
    kv = lab::allocate<char>(plane_bytes * planes);
    if (fill) {
      CHECK(cudaMemset(kv, 0xFF, plane_bytes * planes));  // not numbers wherever nothing is written
    } else {
      lab::fill_random<<<2048, 256>>>(reinterpret_cast<bf16*>(kv), plane_bytes * planes / 2, 4, 1.0F);
    }
    std::vector<int32_t> tables(lengths.size() * max_pages, 0), order(pages - 1);
    for (int i = 0; i < pages - 1; ++i) order[i] = i + 1;
    for (int i = pages - 2; i > 0; --i) std::swap(order[i], order[lab::mix(i) % (i + 1)]);
    int next = 0;
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int p = 0; p < (lengths[s] + 15) / 16; ++p) tables[s * max_pages + p] = order[next++];
    }
    const int32_t* device_tables = upload(tables);
    for (size_t s = 0; s < lengths.size() && fill; ++s) {
      fill_pages<<<lengths[s], 256>>>(kv, page_stride, device_tables + s * max_pages, static_cast<int>(s), lengths[s], head_dim);
      CHECK(cudaGetLastError());
    }
    std::vector<int32_t> begin, end;
    int longest = 1;
    for (const Row& row : row_list) {
      begin.push_back(row.begin), end.push_back(row.end);
      longest = std::max(longest, row.end);
    }
    max_splits = (longest + kSplit - 1) / kSplit;
    const int heads = kKvHeads * group;
    q = lab::random_bf16(int64_t{rows} * heads * head_dim, 21, 1.0F);
    call.kv = kv, call.page_stride = page_stride, call.page_tables = device_tables, call.max_pages = max_pages;
    call.begin = upload(begin), call.end = upload(end);
    call.n_kv_heads = kKvHeads, call.group = group;
    call.scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(head_dim)));
    call.out_stride = int64_t{heads} * head_dim;
    call.max_splits = max_splits;
    if (int64_t{rows} * max_splits <= 20000) {
      call.partial = lab::allocate<float>(int64_t{rows} * heads * max_splits * head_dim);
      call.extent = lab::allocate<float2>(int64_t{rows} * heads * max_splits);
    }
  }
  ~Scene() {
    CHECK(cudaDeviceSynchronize());
    for (const void* p : {static_cast<const void*>(kv), static_cast<const void*>(q), static_cast<const void*>(call.partial),
                          static_cast<const void*>(call.extent), static_cast<const void*>(call.page_tables)}) {
      CHECK(cudaFree(const_cast<void*>(p)));
    }
  }

  /// Blocks of at most `most` rows of one sequence.
  std::vector<RowBlock> blocks(int most) const {
    std::vector<RowBlock> found;
    for (int r = 0; r < rows;) {
      int n = 1;
      while (n < most && r + n < rows && row_list[r + n].sequence == row_list[r].sequence) ++n;
      RowBlock block{r, n, row_list[r].sequence, INT32_MAX, 0, INT32_MAX};
      for (int i = r; i < r + n; ++i) {
        const Row& row = row_list[i];
        if (row.begin == row.end) continue;
        block.low = std::min(block.low, row.begin), block.high = std::max(block.high, row.end);
        block.settled = std::min(block.settled, row.end - 1);
      }
      if (block.high == 0) block.low = 0;
      found.push_back(block);
      r += n;
    }
    return found;
  }
};

struct Prepared {
  AttentionCall call;
  CUtensorMap map;
};

template <int kHeadDim, int kGroups>
Prepared prepare(const Scene& scene, bf16* out, int most_rows) {
  Prepared made{scene.call, {}};
  const int tokens = kGroups * 64 / scene.group;
  const auto list = scene.blocks(std::min(most_rows, tokens));
  made.call.blocks = upload(list);
  made.call.n_blocks = static_cast<int32_t>(list.size());
  made.call.out = out;
  made.map = lab::queries_map(scene.q, scene.rows, kKvHeads * scene.group, kHeadDim, made.call.out_stride, scene.group, tokens);
  return made;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, int threads, int shared, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

template <int kHeadDim, int kGroups, bool kWhole>
void run(const Scene& scene, Prepared made, cudaStream_t stream, int plane = 0) {
  using Shape = Attention<kHeadDim, kGroups, kWhole>;
  CHECK(cudaFuncSetAttribute(attention_kernel<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes));
  made.call.kv += plane * scene.plane_bytes;
  const int64_t units = int64_t{made.call.n_blocks} * kKvHeads * (kWhole ? 1 : made.call.max_splits);
  launch(attention_kernel<Shape>, dim3(static_cast<unsigned>(std::min<int64_t>(units, 132))), Shape::kThreads, Shape::kSharedBytes, stream,
         made.map, made.call);
  if (!kWhole) {
    launch(combine_splits<kHeadDim>, dim3(static_cast<unsigned>((scene.rows * kKvHeads * scene.group + 3) / 4)), 128, 0, stream, made.call, scene.rows);
  }
}

template <int kHeadDim>
FewCall prepare_few(const Scene& scene, bf16* out, int most_rows) {
  const auto list = scene.blocks(std::min(most_rows, 16 / scene.group));
  FewCall made{scene.call, scene.q, scene.call.out_stride};
  made.attention.blocks = upload(list);
  made.attention.n_blocks = static_cast<int32_t>(list.size());
  made.attention.out = out;
  return made;
}

template <int kHeadDim, int kStages>
void run_few(const Scene& scene, FewCall made, cudaStream_t stream, int plane = 0) {
  using Shape = AttentionFew<kHeadDim, kStages>;
  CHECK(cudaFuncSetAttribute(attention_few_kernel<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes));
  made.attention.kv += plane * scene.plane_bytes;
  launch(attention_few_kernel<Shape>,
         dim3(static_cast<unsigned>(made.attention.max_splits), kKvHeads, static_cast<unsigned>(made.attention.n_blocks)),
         Shape::kThreads, Shape::kSharedBytes, stream, made);
  if (made.attention.max_splits == 1) return;
  launch(combine_splits<kHeadDim>, dim3(static_cast<unsigned>((scene.rows * kKvHeads * scene.group + 3) / 4)), 128, 0, stream, made.attention, scene.rows);
}

/// Largest error of sampled (row, head)s against fp64, relative to the answer's norm.
double error_of(const Scene& scene, const bf16* out) {
  const int heads = kKvHeads * scene.group, d = scene.head_dim;
  const auto q = lab::download(scene.q, int64_t{scene.rows} * heads * d);
  const auto y = lab::download(out, int64_t{scene.rows} * heads * d);
  double worst = 0;
  for (int r = 0; r < scene.rows; ++r) {
    const Row row = scene.row_list[r];
    const int head = static_cast<int>(lab::mix(r) % heads);
    std::vector<double> weights;
    double highest = -INFINITY, total = 0;
    const auto bf = [](float x) { return static_cast<double>(__bfloat162float(__float2bfloat16_rn(x))); };
    for (int p = row.begin; p < row.end; ++p) {
      double dot = 0;
      for (int i = 0; i < d; ++i) {
        dot += static_cast<double>(__bfloat162float(q[(int64_t{r} * heads + head) * d + i])) *
               bf(kv_value(row.sequence, p, head / scene.group, false, i));
      }
      weights.push_back(dot / std::sqrt(static_cast<double>(d)));
      highest = std::max(highest, weights.back());
    }
    for (double& w : weights) total += w = std::exp(w - highest);
    double error = 0, size = 1e-12;
    for (int i = 0; i < d; ++i) {
      double sum = 0;
      for (int p = row.begin; p < row.end; ++p) {
        if (weights[p - row.begin] > 1e-9 * total) sum += weights[p - row.begin] / total * bf(kv_value(row.sequence, p, head / scene.group, true, i));
      }
      const double delta = __bfloat162float(y[(int64_t{r} * heads + head) * d + i]) - sum;
      error += delta * delta, size += sum * sum;
    }
    if (row.begin == row.end) size = 1;
    worst = std::isnan(error) ? 1e9 : std::max(worst, std::sqrt(error / size));
  }
  return worst;
}

template <int kHeadDim>
bool check(int group, bool one_split = false) {
  const std::vector<int> lengths = one_split ? std::vector<int>{1, 17, 64, 255, 256, 127, 128, 129} : std::vector<int>{1, 17, 64, 255, 256, 257, 700, 1500};
  std::vector<Row> rows;
  for (int s = 0; s < static_cast<int>(lengths.size()); ++s) {
    const int n = std::min(lengths[s], s % 2 == 0 ? 16 : 37);
    for (int i = 0; i < n; ++i) {
      const int end = lengths[s] - n + i + 1;
      const int kind = s % 3;  // causal, window of 100, whole block
      rows.push_back({s, kind == 1 ? std::max(0, end - 100) : 0, kind == 2 ? lengths[s] : end});
    }
  }
  rows.push_back({7, 40, 40});  // sees nothing
  if (!one_split) rows.push_back({7, 300, 600});
  Scene scene(kHeadDim, group, lengths, rows);
  const int64_t count = int64_t{scene.rows} * scene.call.out_stride;
  bf16* expected = lab::allocate<bf16>(count);
  bf16* out = lab::allocate<bf16>(count);
  CHECK(cudaMemset(expected, 0xFF, count * 2));
  run<kHeadDim, 2, true>(scene, prepare<kHeadDim, 2>(scene, expected, 1 << 20), nullptr);
  CHECK(cudaDeviceSynchronize());
  const double error = error_of(scene, expected);
  bool good = error < 2e-2;
  std::printf("head_dim %d group %d: %d rows, worst error %.1e%s; differing words:", kHeadDim, group, scene.rows, error, good ? "" : " WRONG");
  const auto compare = [&](const char* name) {
    CHECK(cudaDeviceSynchronize());
    const unsigned long long wrong = lab::differences(reinterpret_cast<uint16_t*>(out), reinterpret_cast<uint16_t*>(expected), count);
    std::printf(" %s %llu", name, wrong);
    good = good && wrong == 0;
    CHECK(cudaMemset(out, 0xFF, count * 2));
  };
  for (const int most : {1 << 20, 16, 5, 1}) {
    std::printf(" [%d rows a block]", std::min(most, 128 / group));
    run<kHeadDim, 2, true>(scene, prepare<kHeadDim, 2>(scene, out, most), nullptr);
    compare("whole2");
    run<kHeadDim, 1, true>(scene, prepare<kHeadDim, 1>(scene, out, most), nullptr);
    compare("whole1");
    run<kHeadDim, 1, false>(scene, prepare<kHeadDim, 1>(scene, out, most), nullptr);
    compare("split1");
    run<kHeadDim, 2, false>(scene, prepare<kHeadDim, 2>(scene, out, most), nullptr);
    compare("split2");
    const auto few = prepare_few<kHeadDim>(scene, out, most);
    run_few<kHeadDim, 4>(scene, few, nullptr);
    compare("few");
    run_few<kHeadDim, 2>(scene, few, nullptr);
    compare("few, 2 stages");
  }
  std::printf("%s\n", good ? "" : "  <-- NOT THE SAME");
  CHECK(cudaFree(out));
  CHECK(cudaFree(expected));
  return good;
}

void time_case(const char* name, int sequences, int context, int rows_each, int planes, double copy) {
  constexpr int kGroup = 4;
  std::vector<int> lengths(sequences, context);
  std::vector<Row> rows;
  for (int s = 0; s < sequences; ++s) {
    for (int i = 0; i < rows_each; ++i) rows.push_back({s, 0, context - rows_each + i + 1});
  }
  Scene scene(128, kGroup, lengths, rows, planes, false);
  bf16* out = lab::allocate<bf16>(int64_t{scene.rows} * scene.call.out_stride);
  const double bytes = 2.0 * 2 * kKvHeads * 128 * context * sequences;
  double pairs = 0;  // of row and key
  for (const Row& row : rows) pairs += row.end - row.begin;
  const double flop = pairs * kKvHeads * kGroup * 128 * 4;
  std::printf("%-28s floor %.1f us", name, bytes / copy * 1e-6);
  const auto report = [&](const char* how, double us) {
    std::printf("\n    %-21s %7.2f us (%.2f of copy, %.0f TFLOP/s)", how, us, bytes / us * 1e-6 / copy, flop / us * 1e-6);
  };
  const int launches = rows_each > 1000 ? 2 : 16;
  const auto time = [&](auto&& body) { return lab::time_graph(launches, body, 5); };
  {
    const auto made = prepare<128, 1>(scene, out, 1 << 20);
    report("whole1", time([&](cudaStream_t stream, int i) { run<128, 1, true>(scene, made, stream, i % planes); }));
  }
  if (rows_each > 16) {
    const auto made = prepare<128, 2>(scene, out, 1 << 20);
    report("whole2", time([&](cudaStream_t stream, int i) { run<128, 2, true>(scene, made, stream, i % planes); }));
  }
  if (scene.call.partial != nullptr) {
    const auto made = prepare<128, 1>(scene, out, 1 << 20);
    report("split1", time([&](cudaStream_t stream, int i) { run<128, 1, false>(scene, made, stream, i % planes); }));
  }
  const auto few = prepare_few<128>(scene, out, 1 << 20);
  if (rows_each <= 16 && scene.call.partial != nullptr) {
    report("few", time([&](cudaStream_t stream, int i) { run_few<128, 4>(scene, few, stream, i % planes); }));
    report("few, 2 stages", time([&](cudaStream_t stream, int i) { run_few<128, 2>(scene, few, stream, i % planes); }));
  }
  std::printf("\n");
  CHECK(cudaFree(out));
}

}  // namespace

int main(int argc, char**) {
  bool good = check<128>(4);
  good = check<128>(4, true) && good;
  good = check<128>(2) && good;
  good = check<128>(8) && good;
  good = check<128>(7) && good;
  good = check<64>(4) && good;
  std::printf(good ? "attention: all bits equal\n" : "attention: BITS DIFFER\n");
  if (argc > 1) return good ? 0 : 1;
  const double copy = lab::copy_bandwidth();
  time_case("decode 1 x 1k", 1, 1024, 1, 32, copy);
  time_case("decode 1 x 4k", 1, 4096, 1, 16, copy);
  time_case("decode 1 x 32k", 1, 32768, 1, 4, copy);
  time_case("verify 1 x 1k, 16 rows", 1, 1024, 16, 32, copy);
  time_case("verify 1 x 4k, 16 rows", 1, 4096, 16, 16, copy);
  time_case("decode 8 x 1k", 8, 1024, 1, 8, copy);
  time_case("decode 32 x 160", 32, 160, 1, 8, copy);
  time_case("decode 1 x 160", 1, 160, 1, 32, copy);
  time_case("verify 8 x 1k, 16 rows", 8, 1024, 16, 8, copy);
  time_case("decode 32 x 1k", 32, 1024, 1, 4, copy);
  time_case("decode 32 x 4k", 32, 4096, 1, 2, copy);
  time_case("verify 32 x 1k, 16 rows", 32, 1024, 16, 4, copy);
  time_case("prefill 512", 1, 512, 512, 8, copy);
  time_case("prefill 4096", 1, 4096, 4096, 4, copy);
  return good ? 0 : 1;
}
