// SPDX-License-Identifier: Apache-2.0
// The product: right, the same bits for a row in any company, and how fast.
#include <cstring>
#include <map>

#include "lab.h"
#include "pack.cuh"
#include "product_plan.h"

using lab::bf16;
using namespace ashlar::cuda;

namespace {

int multiprocessors = 132;
int most_blocks = 132;  ///< of a persistent launch

struct Weights {
  int n, k;
  std::vector<bf16*> packed;  // copies, so that a launch finds its weights in memory and not in L2
  bf16* plain;                // [n, k], the first copy's values
  std::vector<bf16*> plains;  // for cuBLAS, cold as well
};

Weights make_weights(int n, int k, int64_t total_bytes) {
  Weights w{n, k, {}, nullptr, {}};
  const int64_t size = int64_t{(n + 63) / 64} * 64 * k;
  const int copies = static_cast<int>(std::clamp<int64_t>(total_bytes / (size * 2), 2, 48));
  for (int i = 0; i < copies; ++i) {
    bf16* plain = lab::random_bf16(int64_t{n} * k, 100 + i, 0.02F);
    bf16* packed = lab::allocate<bf16>(size);
    pack_weight<<<2048, 256>>>(plain, n, k, k, reinterpret_cast<char*>(packed));
    CHECK(cudaGetLastError());
    w.packed.push_back(packed);
    w.plains.push_back(plain);
  }
  w.plain = w.plains[0];
  return w;
}

void free_weights(Weights& w) {
  CHECK(cudaDeviceSynchronize());
  for (bf16* p : w.packed) CHECK(cudaFree(p));
  for (bf16* p : w.plains) CHECK(cudaFree(p));
}

int map_rows = 0;  ///< rows of the tensor map; 0: those of the call

/// kWarpgroups and kTokens decide the rest.
template <int kTokens, int kWarpgroups, bool kCluster, bool kTotals, Finish kFinish, int kMostStages>
void launch_shape(cudaStream_t stream, const bf16* x, int x_rows, const ProductCall& call, bool dependent) {
  const CUtensorMap map = lab::rows_map(x, map_rows > 0 ? map_rows : x_rows, call.k, call.k, kTokens);
  using Instance = ProductInstance<kTokens, kWarpgroups, kCluster, kTotals, kFinish, kMostStages>;
  CHECK(Instance::launch(stream, map, call, most_blocks, dependent));
}

struct Variant {
  const char* name;
  int tokens;
  bool cluster, totals;
  void (*launch)(cudaStream_t, const bf16*, int, const ProductCall&, bool);
};

template <int kTokens, int kWarpgroups, bool kCluster, bool kTotals, Finish kFinish = Finish::kBf16, int kMostStages = 16>
constexpr Variant variant(const char* name) {
  return {name, kTokens, kCluster, kTotals, launch_shape<kTokens, kWarpgroups, kCluster, kTotals, kFinish, kMostStages>};
}

const Variant kVariants[] = {
    variant<8, 1, false, false>("8x64"),        variant<16, 1, false, false>("16x64"),
    variant<32, 1, false, false>("32x64"),      variant<64, 1, false, false>("64x64"),
    variant<8, 2, false, false>("8x128"),       variant<16, 2, false, false>("16x128"),
    variant<64, 2, false, false>("64x128"),     variant<128, 2, false, false>("128x128"),
    variant<256, 2, false, false>("256x128"),   variant<8, 1, true, false>("8x64c"),
    variant<16, 1, true, false>("16x64c"),      variant<32, 1, true, false>("32x64c"),
    variant<64, 1, true, false>("64x64c"),      variant<128, 2, false, true>("128x128t"),
    variant<32, 2, false, false>("32x128"),
    variant<128, 1, false, false>("128x64"),
    variant<128, 1, false, true>("128x64t"),
    variant<64, 1, false, true>("64x64t"),
    variant<8, 1, false, false, Finish::kBf16, 4>("8x64r4"),
    variant<8, 1, false, false, Finish::kBf16, 5>("8x64r5"),
    variant<8, 1, false, false, Finish::kBf16, 6>("8x64r6"),
    variant<8, 1, false, false, Finish::kBf16, 7>("8x64r7"),
    variant<16, 1, false, false, Finish::kBf16, 4>("16x64r4"),
    variant<16, 1, false, false, Finish::kBf16, 5>("16x64r5"),
    variant<16, 1, false, false, Finish::kBf16, 6>("16x64r6"),
    variant<16, 1, false, false, Finish::kBf16, 7>("16x64r7"),
};

const Variant& find(const std::string& name) {
  for (const Variant& v : kVariants) {
    if (name == v.name) return v;
  }
  std::printf("no variant %s\n", name.c_str());
  std::exit(1);
}

void run(const Variant& v, cudaStream_t stream, const bf16* x, int x_rows, const bf16* w, bf16* y, int rows, int n, int k,
         int splits, bool dependent) {
  const ProductCall call{w, y, n, rows, n, k, splits};
  v.launch(stream, x, x_rows, call, dependent);
}

/// Every variant that follows the law `splits`, on prefixes and on windows of 700 rows, against the first one's bits.
bool check_bits(int n, int k, int splits, const std::vector<std::string>& names) {
  constexpr int kRows = 700;
  Weights w = make_weights(n, k, 1);
  const bf16* x = lab::random_bf16(int64_t{kRows} * k, 5, 1.0F);
  bf16* expected = lab::allocate<bf16>(int64_t{kRows} * n);
  bf16* y = lab::allocate<bf16>(int64_t{kRows} * n);
  run(find(names[0]), nullptr, x, kRows, w.packed[0], expected, kRows, n, k, splits, false);
  CHECK(cudaDeviceSynchronize());
  // Against fp64 on sampled outputs.
  const auto hx = lab::download(x, int64_t{kRows} * k);
  const auto hw = lab::download(w.plain, int64_t{n} * k);
  const auto hy = lab::download(expected, int64_t{kRows} * n);
  double error = 0, size = 0;
  for (int i = 0; i < 4000; ++i) {
    const int64_t r = lab::mix(i) % kRows, c = i < 64 ? n - 1 - i : lab::mix(i + 70000) % n;
    double sum = 0;
    for (int j = 0; j < k; ++j) sum += static_cast<double>(__bfloat162float(hx[r * k + j])) * __bfloat162float(hw[c * k + j]);
    const double d = __bfloat162float(hy[r * n + c]) - sum;
    error += d * d, size += sum * sum;
  }
  const double relative = std::sqrt(error / size);
  bool good = relative < 4e-3;
  std::printf("n %6d k %5d splits %d: error %.1e%s;", n, k, splits, relative, good ? "" : " WRONG");
  for (const std::string& name : names) {
    unsigned long long wrong = 0;
    int calls = 0;
    const Variant& v = find(name);
    for (const int rows : {700, 1, 2, 4, 8, 13, 16, 32, 64, 100, 128, 512}) {
      for (const int first : {0, 1, 37, 188}) {
        if (first + rows > kRows) continue;
        if ((v.tokens <= 16 && rows > 128) || (v.cluster && rows > 512)) continue;
        CHECK(cudaMemset(y, 0xFF, int64_t{rows} * n * 2));
        run(v, nullptr, x + int64_t{first} * k, kRows - first, w.packed[0], y, rows, n, k, splits, false);
        wrong += lab::differences(reinterpret_cast<uint16_t*>(y), reinterpret_cast<uint16_t*>(expected + int64_t{first} * n),
                                  int64_t{rows} * n);
        ++calls;
      }
    }
    std::printf(" %s %llu/%d", name.c_str(), wrong, calls);
    good = good && wrong == 0;
  }
  std::printf("%s\n", good ? "" : "  <-- NOT THE SAME");
  free_weights(w);
  CHECK(cudaFree(const_cast<bf16*>(x)));
  CHECK(cudaFree(expected));
  CHECK(cudaFree(y));
  return good;
}

__global__ void interleave_gate_up(const bf16* gate, const bf16* up, int width, int k, bf16* to) {
  const int row = blockIdx.x;  // of the stacked weight: 8 of the gate, 8 of up, and so on
  const bf16* from = (row / 8 % 2 == 0 ? gate : up) + (int64_t{row} / 16 * 8 + row % 8) * k;
  for (int i = threadIdx.x; i < k; i += blockDim.x) to[int64_t{row} * k + i] = from[i];
}

/// What a product may do with its sums, in a small and a large tile, against the plain fp32 sums.
template <int kTokens, int kWarpgroups, bool kCluster, bool kTotals>
bool check_finish(int splits) {
  constexpr int kRows = 77, kN = 1024, kK = 1024, kWidth = kN / 2;
  const bf16* x = lab::random_bf16(int64_t{kRows} * kK, 5, 1.0F);
  bf16* gate = lab::random_bf16(int64_t{kWidth} * kK, 6, 0.02F);
  bf16* up = lab::random_bf16(int64_t{kWidth} * kK, 7, 0.02F);
  bf16* plain = lab::allocate<bf16>(int64_t{kN} * kK);
  bf16* packed = lab::allocate<bf16>(int64_t{kN} * kK);
  interleave_gate_up<<<kN, 128>>>(gate, up, kWidth, kK, plain);
  pack_weight<<<512, 256>>>(plain, kN, kK, kK, reinterpret_cast<char*>(packed));
  float* sums = lab::allocate<float>(kRows * kN);
  bf16* residual = lab::random_bf16(kRows * kN, 8, 1.0F);
  const auto before = lab::download(residual, kRows * kN);
  bf16* gated = lab::allocate<bf16>(kRows * kWidth);
  const auto call = [&](void* out, int64_t stride) { return ProductCall{packed, out, stride, kRows, kN, kK, splits}; };
  launch_shape<kTokens, kWarpgroups, kCluster, kTotals, Finish::kFloat, 16>(nullptr, x, kRows, call(sums, kN), false);
  launch_shape<kTokens, kWarpgroups, kCluster, kTotals, Finish::kAddBf16, 16>(nullptr, x, kRows, call(residual, kN), false);
  launch_shape<kTokens, kWarpgroups, kCluster, kTotals, Finish::kGatedBf16, 16>(nullptr, x, kRows, call(gated, kWidth), false);
  CHECK(cudaDeviceSynchronize());
  const auto hs = lab::download(sums, kRows * kN);
  const auto ha = lab::download(residual, kRows * kN), hg = lab::download(gated, kRows * kWidth);
  const auto hx = lab::download(x, kRows * kK), hw = lab::download(plain, kN * kK);
  double error = 0, size = 0, gated_error = 0, gated_size = 0;
  int wrong = 0;
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kN; ++i) {
      if ((r * kN + i) % 37 == 0) {
        double sum = 0;
        for (int j = 0; j < kK; ++j) sum += static_cast<double>(__bfloat162float(hx[r * kK + j])) * __bfloat162float(hw[i * kK + j]);
        error += (hs[r * kN + i] - sum) * (hs[r * kN + i] - sum), size += sum * sum;
      }
      const float added = __bfloat162float(__float2bfloat16_rn(__bfloat162float(before[r * kN + i]) + __bfloat162float(__float2bfloat16_rn(hs[r * kN + i]))));
      wrong += added != __bfloat162float(ha[r * kN + i]);
    }
    for (int i = 0; i < kWidth; ++i) {
      const double g = hs[r * kN + i / 8 * 16 + i % 8], u = hs[r * kN + i / 8 * 16 + 8 + i % 8];
      const double expected = g / (1 + std::exp(-g)) * u, d = __bfloat162float(hg[r * kWidth + i]) - expected;
      gated_error += d * d, gated_size += expected * expected;
    }
  }
  const bool good = std::sqrt(error / size) < 1e-5 && wrong == 0 && std::sqrt(gated_error / gated_size) < 3e-3;
  std::printf("finish %dx%d splits %d: fp32 error %.1e, added wrong %d, gated error %.1e%s\n", kTokens, 64 * kWarpgroups, splits,
              std::sqrt(error / size), wrong, std::sqrt(gated_error / gated_size), good ? "" : "  WRONG");
  return good;
}

double time_variant(const Weights& w, const Variant& v, const bf16* x, bf16* y, int rows, int splits, bool dependent) {
  const int copies = static_cast<int>(w.packed.size());
  const int64_t bytes = int64_t{w.n} * w.k * 2;
  const int launches = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 30) / bytes, 4, 32));
  return lab::time_graph(launches, [&](cudaStream_t stream, int i) {
    run(v, stream, x, rows, w.packed[i % copies], y, rows, w.n, w.k, splits, dependent);
  }, rows > 1000 ? 3 : 7);
}

struct Case {
  const char* name;
  int n, k;
};
const Case kCases[] = {{"8b qkv", 6144, 4096},     {"8b o", 4096, 4096},        {"8b gate_up", 24576, 4096},
                       {"8b down", 4096, 12288},   {"8b head", 151936, 4096},   {"0.6b qkv", 4096, 1024},
                       {"0.6b o", 1024, 2048},     {"0.6b gate_up", 6144, 1024}, {"0.6b down", 1024, 3072},
                       {"0.6b head", 151936, 1024}};

/// Layers of products one behind the other, as a decoder has them, with dependent launches: the figure that counts.
struct Stage {
  int weight;
  const char* variant;
  int splits;
};
void time_chain(const char* name, const std::vector<Case>& cases, int layers, int rows, const std::vector<Stage>& stages,
                double copy) {
  static std::map<std::string, std::vector<std::vector<bf16*>>> kept;
  auto& weights = kept[cases[0].name];
  if (weights.empty()) {
    for (const Case& c : cases) {
      weights.emplace_back();
      for (int l = 0; l < layers; ++l) weights.back().push_back(lab::random_bf16(int64_t{c.n} * c.k, l, 0.02F));
    }
  }
  static bf16* x = lab::random_bf16(int64_t{4096} * 12288, 5, 1.0F);
  static bf16* y = lab::allocate<bf16>(int64_t{4096} * 24576);
  double bytes = 0;
  for (const Stage& s : stages) bytes += 2.0 * cases[s.weight].n * cases[s.weight].k * layers;
  const double us = lab::time_graph(1, [&](cudaStream_t stream, int) {
    for (int l = 0; l < layers; ++l) {
      for (const Stage& s : stages) {
        const Case& c = cases[s.weight];
        run(find(s.variant), stream, x, rows, weights[s.weight][l], y, rows, c.n, c.k, s.splits, true);
      }
    }
  });
  std::printf("  chain %-10s %3d rows", name, rows);
  for (const Stage& s : stages) std::printf(" %s/%d", s.variant, s.splits);
  std::printf(": %.1f us a layer, %.3f TB/s = %.2f of copy\n", us / layers, bytes / us * 1e-6, bytes / us * 1e-6 / copy);
}

void chains(double copy) {
  const std::vector<Case> big = {kCases[0], kCases[1], kCases[2], kCases[3]};
  const std::vector<Case> small = {kCases[5], kCases[6], kCases[7], kCases[8]};
  for (const auto& [rows, t] : std::vector<std::pair<int, std::string>>{{1, "8"}, {16, "16"}}) {
    const std::string full = t + "x64";
    for (const char* ring : {"", "r4", "r5", "r6", "r7"}) {
      const std::string narrow = full + ring;
      for (map_rows = 0; map_rows <= 4096; map_rows += 4096) {
        std::printf("map %d", map_rows);
        time_chain("8b", big, 6, rows, {{0, full.c_str(), 1}, {1, narrow.c_str(), 1}, {2, full.c_str(), 1}, {3, narrow.c_str(), 1}}, copy);
      }
    }
  }
  map_rows = 4096;
  const std::vector<std::pair<int, std::string>> sizes = {{1, "8x64"}, {16, "16x64"}, {32, "32x64"}, {64, "64x64"}};
  for (const auto& [rows, name] : sizes) {
    const char* whole = name.c_str();
    const std::string cluster = name + "c";
    const char* split = cluster.c_str();
    time_chain("8b", big, 6, rows, {{0, whole, 1}, {1, whole, 1}, {2, whole, 1}, {3, whole, 1}}, copy);
    time_chain("8b", big, 6, rows, {{0, whole, 1}, {1, whole, 1}, {2, whole, 1}, {3, split, 2}}, copy);
    time_chain("0.6b", small, 28, rows, {{0, whole, 1}, {1, whole, 1}, {2, whole, 1}, {3, whole, 1}}, copy);
    time_chain("0.6b", small, 28, rows, {{0, whole, 1}, {1, split, 2}, {2, whole, 1}, {3, split, 2}}, copy);
    time_chain("0.6b", small, 28, rows, {{0, whole, 1}, {1, split, 4}, {2, whole, 1}, {3, split, 4}}, copy);
  }
}

/// Every tile for every shape: what the plan's speeds were made of.
void tiles(double copy) {
  for (const Case& c : kCases) {
    Weights w = make_weights(c.n, c.k, int64_t{600} << 20);
    const bf16* x = lab::random_bf16(int64_t{4096} * c.k, 5, 1.0F);
    bf16* y = lab::allocate<bf16>(int64_t{4096} * c.n);
    const double bytes = 2.0 * c.n * c.k;
    std::printf("%s [%d, %d]\n", c.name, c.n, c.k);
    for (const Variant& v : kVariants) {
      for (const int rows : {1, 16, 64, 128, 256, 512, 1024, 4096}) {
        if (rows > 64 * v.tokens || (rows > 64 && c.n > 100000) || (v.tokens > 64 && rows < 64)) continue;
        for (const int splits : {1, 2, 4, 8}) {
          if ((splits > 1) != (v.cluster || v.totals) || (splits > 1 && c.n * splits > 128 * 132)) continue;
          const double us = time_variant(w, v, x, y, rows, splits, true);
          std::printf("  %-9s splits %d %4d rows %9.2f us, %.2f of copy, %6.1f TFLOP/s\n", v.name, splits, rows, us,
                      bytes / us * 1e-6 / copy, 2.0 * rows * c.n * c.k / us * 1e-6);
        }
      }
    }
    free_weights(w);
    CHECK(cudaFree(const_cast<bf16*>(x)));
    CHECK(cudaFree(y));
  }
}

/// What the plan chooses, beside cuBLAS, with weights that are not in L2.
void table(double copy, lab::Blas& blas) {
  std::printf("us with dependent launches (tile) | share of copy by weight bytes, TFLOP/s | cuBLAS us, TFLOP/s | ours / cuBLAS\n");
  for (const Case& c : kCases) {
    Weights w = make_weights(c.n, c.k, int64_t{600} << 20);
    const bool head = c.n > 100000;
    const int most = head ? 512 : 4096;
    const bf16* x = lab::random_bf16(int64_t{4096} * c.k, 5, 1.0F);
    bf16* y = lab::allocate<bf16>(int64_t{most} * c.n);
    const double bytes = 2.0 * c.n * c.k;
    const int splits = splits_of(c.n, c.k);
    std::printf("%s [%d, %d], splits %d, floor %.1f us\n", c.name, c.n, c.k, splits, bytes / copy * 1e-6);
    for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096}) {
      if (rows > most) continue;
      const Tile& tile = tile_for(rows, c.n, splits, multiprocessors);
      const CUtensorMap map = lab::rows_map(x, 4096, c.k, c.k, tile.tokens);
      const int copies = static_cast<int>(w.packed.size());
      const int launches = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 30) / static_cast<int64_t>(bytes), 4, 32));
      const double us = lab::time_graph(launches, [&](cudaStream_t stream, int i) {
        CHECK(launch_product<Finish::kBf16>(stream, tile, map, {w.packed[i % copies], y, c.n, rows, c.n, c.k, splits}, multiprocessors));
      });
      const double flop = 2.0 * rows * c.n * c.k;
      std::printf("  %4d rows %9.2f (%dx%d%s) | %.2f %6.1f", rows, us, tile.tokens, 64 * tile.warpgroups, tile.cluster ? "c" : "",
                  bytes / us * 1e-6 / copy, flop / us * 1e-6);
      if (blas) {
        const double other = lab::time_graph(launches, [&](cudaStream_t stream, int i) {
          blas.product(stream, x, w.plains[i % copies], y, false, rows, c.n, c.k);
        });
        std::printf(" | %9.2f %6.1f | %.2f", other, flop / other * 1e-6, us / other);
      }
      std::printf("\n");
    }
    std::fflush(stdout);
    free_weights(w);
    CHECK(cudaFree(const_cast<bf16*>(x)));
    CHECK(cudaFree(y));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "check") == 0;
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  multiprocessors = device.multiProcessorCount;
  bool good = true;
  most_blocks = multiprocessors;
  const std::vector<std::string> whole = {"256x128", "8x64",   "16x64",  "32x64",    "64x64",   "8x128",
                                          "16x128",  "64x128", "128x128", "128x128t", "32x128", "128x64"};
  good = check_bits(4096, 4096, 1, whole) && good;
  good = check_bits(6144 + 8, 1024, 1, whole) && good;
  for (const int splits : {2, 4, 8}) {
    good = check_bits(1024, 3072, splits, {"128x128t", "128x64t", "64x64t", "8x64c", "16x64c", "32x64c", "64x64c"}) && good;
  }
  good = check_bits(4096, 4096, 2, {"128x128t", "128x64t", "64x64t", "8x64c", "16x64c", "32x64c", "64x64c"}) && good;
  good = check_finish<8, 1, false, false>(1) && good;
  good = check_finish<16, 1, true, false>(4) && good;
  good = check_finish<128, 2, false, true>(4) && good;
  good = check_finish<256, 2, false, false>(1) && good;
  good = check_finish<128, 1, false, true>(2) && good;
  good = check_finish<64, 1, false, false>(1) && good;
  std::printf(good ? "all bits equal\n" : "BITS DIFFER\n");
  if (quick) return good ? 0 : 1;

  const double copy = lab::copy_bandwidth();
  std::printf("copy %.3f TB/s. Columns: us (share of the copy bandwidth by weight bytes)\n", copy);
  if (argc > 1 && std::strcmp(argv[1], "chain") == 0) {
    chains(copy);
    return 0;
  }
  lab::Blas blas;
  map_rows = 4096;
  if (argc > 1 && std::strcmp(argv[1], "tiles") == 0) {
    tiles(copy);
  } else {
    table(copy, blas);
  }
  return good ? 0 : 1;
}
