// SPDX-License-Identifier: Apache-2.0
// Row-wise operations and choosing tokens: right against plain host loops, rows independent, how long they take.
#include <array>
#include <cmath>

#include "base/philox.h"
#include "lab.h"
#include "sample.cuh"
#include "small_ops.cuh"

using lab::bf16;
using namespace ashlar::cuda;

namespace {

bool all_good = true;
bool quick = false;  ///< for checkers of memory accesses, which are slow
void report(const char* what, bool good, double figure) {
  std::printf("%-44s %s  %.2e\n", what, good ? "good" : "WRONG", figure);
  all_good = all_good && good;
}

float wide(bf16 x) { return __bfloat162float(x); }

template <class T>
T* upload(const std::vector<T>& values) {
  T* to = lab::allocate<T>(values.size());
  CHECK(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return to;
}

std::vector<float> norm_weights(int n) {
  std::vector<float> w(n);
  for (int i = 0; i < n; ++i) w[i] = 1.0F + lab::random_value(77, i, 0.2F);
  return w;
}

template <int kThreads, int kPieces>
void check_rms_norm(int cols) {
  constexpr int kRows = 37;
  const auto hw = norm_weights(cols);
  const float* w = upload(hw);
  bf16* x = lab::random_bf16(int64_t{kRows} * cols, 1, 1.0F);
  bf16* add = lab::random_bf16(int64_t{kRows} * cols, 2, 1.0F);
  bf16* out = lab::allocate<bf16>(int64_t{kRows} * cols);
  bf16* alone = lab::allocate<bf16>(int64_t{kRows} * cols);
  const auto hx = lab::download(x, int64_t{kRows} * cols), hadd = lab::download(add, int64_t{kRows} * cols);
  bf16* kept = upload(hx);
  rms_norm<kThreads, kPieces><<<kRows, kThreads>>>(x, cols, add, cols, w, 1e-6F, cols, out, cols);
  for (int r = 0; r < kRows; ++r) {
    rms_norm<kThreads, kPieces><<<1, kThreads>>>(kept + int64_t{r} * cols, cols, add + int64_t{r} * cols, cols, w, 1e-6F, cols,
                                  alone + int64_t{r} * cols, cols);
  }
  CHECK(cudaDeviceSynchronize());
  const auto y = lab::download(out, int64_t{kRows} * cols);
  double error = 0, size = 0;
  for (int r = 0; r < kRows; ++r) {
    double square = 0;
    std::vector<float> sum(cols);
    for (int i = 0; i < cols; ++i) {
      sum[i] = wide(__float2bfloat16_rn(wide(hx[r * cols + i]) + wide(hadd[r * cols + i])));
      square += static_cast<double>(sum[i]) * sum[i];
    }
    for (int i = 0; i < cols; ++i) {
      const double expected = sum[i] / std::sqrt(square / cols + 1e-6) * hw[i];
      const double d = wide(y[r * cols + i]) - expected;
      error += d * d, size += expected * expected;
    }
  }
  const auto wrong = lab::differences(reinterpret_cast<uint16_t*>(out), reinterpret_cast<uint16_t*>(alone), int64_t{kRows} * cols);
  char name[64];
  std::snprintf(name, sizeof name, "rms_norm + residual, %d columns", cols);
  report(name, std::sqrt(error / size) < 3e-3 && wrong == 0, std::sqrt(error / size));
}

template <int kHeadDim>
void check_finish(int q_heads, int kv_heads) {
  constexpr int kRows = 29, kPages = 8;
  const int heads = q_heads + 2 * kv_heads, width = heads * kHeadDim;
  const auto hq = norm_weights(kHeadDim), hk = norm_weights(kHeadDim);
  std::vector<float> cosines(128 * kHeadDim / 2), sines(cosines.size());
  for (int p = 0; p < 128; ++p) {
    for (int i = 0; i < kHeadDim / 2; ++i) {
      const double angle = p * std::pow(1e6, -2.0 * i / kHeadDim);
      cosines[p * kHeadDim / 2 + i] = static_cast<float>(std::cos(angle));
      sines[p * kHeadDim / 2 + i] = static_cast<float>(std::sin(angle));
    }
  }
  std::vector<int32_t> positions(kRows), tables(kRows, 0), pages(kPages);
  for (int r = 0; r < kRows; ++r) positions[r] = 41 + r, tables[r] = r == 5 ? -1 : 0;
  for (int p = 0; p < kPages; ++p) pages[p] = (p * 3 + 1) % kPages;
  bf16* qkv = lab::random_bf16(int64_t{kRows} * width, 8, 1.0F);
  const auto before = lab::download(qkv, int64_t{kRows} * width);
  FinishCall call = {};
  call.qkv = qkv, call.stride = width, call.rows = kRows, call.q_heads = q_heads, call.n_kv_heads = kv_heads;
  call.q_norm = upload(hq), call.k_norm = upload(hk), call.eps = 1e-6F;
  call.cos = upload(cosines), call.sin = upload(sines), call.positions = upload(positions), call.tables = upload(tables);
  call.page_tables = upload(pages), call.max_pages = kPages;
  call.page_stride = int64_t{kv_heads} * 2 * 16 * kHeadDim * 2;
  call.kv = lab::allocate<char>(call.page_stride * kPages);
  CHECK(cudaMemset(call.kv, 0, call.page_stride * kPages));
  finish_qkv<kHeadDim><<<(kRows * heads + 3) / 4, 128>>>(call);
  CHECK(cudaDeviceSynchronize());
  const auto after = lab::download(qkv, int64_t{kRows} * width);
  const auto kv = lab::download(call.kv, call.page_stride * kPages);
  double error = 0, size = 0;
  int misplaced = 0;
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < heads; ++h) {
      const bf16* x = &before[r * width + h * kHeadDim];
      const bf16* y = &after[r * width + h * kHeadDim];
      const bool value = h >= q_heads + kv_heads, key = h >= q_heads && !value;
      double square = 0;
      for (int i = 0; i < kHeadDim; ++i) square += static_cast<double>(wide(x[i])) * wide(x[i]);
      const double scale = 1 / std::sqrt(square / kHeadDim + 1e-6);
      const auto normed = [&](int i) { return wide(x[i]) * scale * (key ? hk[i] : hq[i]); };
      for (int i = 0; i < kHeadDim; ++i) {
        const int pair = i % (kHeadDim / 2);
        const double c = cosines[positions[r] * kHeadDim / 2 + pair], s = sines[positions[r] * kHeadDim / 2 + pair];
        const double rotated = i < kHeadDim / 2 ? normed(i) * c - normed(i + kHeadDim / 2) * s
                                                : normed(i) * c + normed(i - kHeadDim / 2) * s;
        const double expected = value ? wide(x[i]) : rotated;
        error += (wide(y[i]) - expected) * (wide(y[i]) - expected), size += expected * expected;
        if ((key || value) && tables[r] >= 0) {
          const char* page = kv.data() + pages[positions[r] / 16] * call.page_stride;
          const bf16 stored = *reinterpret_cast<const bf16*>(page + page_place((h - q_heads) % kv_heads, value, positions[r] % 16, i, kHeadDim));
          misplaced += wide(stored) != wide(y[i]);
        }
      }
    }
  }
  char name[64];
  std::snprintf(name, sizeof name, "q/k norm, rope, store, head_dim %d", kHeadDim);
  report(name, std::sqrt(error / size) < 3e-3 && misplaced == 0, std::sqrt(error / size));
}

void check_rows() {
  constexpr int kRows = 19, kWidth = 3072;
  bf16* x = lab::random_bf16(int64_t{kRows} * 2 * kWidth, 4, 2.0F);
  bf16* out = lab::allocate<bf16>(int64_t{kRows} * kWidth);
  silu_product<<<dim3(kWidth / 8 / 128, kRows), 128>>>(x, 2 * kWidth, kWidth, out, kWidth);
  const auto hx = lab::download(x, int64_t{kRows} * 2 * kWidth);
  const auto y = lab::download(out, int64_t{kRows} * kWidth);
  double error = 0, size = 0;
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kWidth; ++i) {
      const double gate = wide(hx[r * 2 * kWidth + i]), up = wide(hx[r * 2 * kWidth + kWidth + i]);
      const double expected = gate / (1 + std::exp(-gate)) * up, d = wide(y[r * kWidth + i]) - expected;
      error += d * d, size += expected * expected;
    }
  }
  report("silu * up", std::sqrt(error / size) < 3e-3, std::sqrt(error / size));

  constexpr int kVocabulary = 5000, kHidden = 1024;
  bf16* table = lab::random_bf16(int64_t{kVocabulary} * kHidden, 4, 1.0F);
  char* packed = lab::allocate<char>(int64_t{(kVocabulary + 63) / 64} * 64 * kHidden * 2);
  pack_weight<<<1024, 256>>>(table, kVocabulary, kHidden, kHidden, packed);
  std::vector<int32_t> ids;
  for (int i = 0; i < 33; ++i) ids.push_back(static_cast<int32_t>(lab::mix(i) % kVocabulary));
  bf16* rows = lab::allocate<bf16>(ids.size() * kHidden);
  embed<<<static_cast<unsigned>(ids.size()), 128>>>(packed, kHidden, upload(ids), 1.0F, kHidden, rows, kHidden);
  const auto ht = lab::download(table, int64_t{kVocabulary} * kHidden);
  const auto hr = lab::download(rows, ids.size() * kHidden);
  int wrong = 0;
  for (size_t r = 0; r < ids.size(); ++r) {
    for (int i = 0; i < kHidden; ++i) wrong += wide(hr[r * kHidden + i]) != wide(ht[ids[r] * kHidden + i]);
  }
  report("embedding from the packed weight", wrong == 0, wrong);
}

__global__ void worst_about(float* worst) {
  float mine = 0;
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < (uint64_t{1} << 32); i += uint64_t{gridDim.x} * blockDim.x * 61) {
    for (const uint32_t word : {static_cast<uint32_t>(i), static_cast<uint32_t>(~i >> 8) | 0xFF000000u, ~static_cast<uint32_t>(i >> 12), static_cast<uint32_t>(i >> 12)}) {
      mine = fmaxf(mine, fabsf(static_cast<float>(gumbel(word) - gumbel_about(word))));
    }
  }
  atomicMax(reinterpret_cast<int*>(worst), __float_as_int(mine));
}

__global__ void dump_noise(uint64_t seed, int32_t position, uint32_t domain, uint32_t* words, double* values) {
  const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  const uint4 block = noise_words(seed, position, index, domain);
  const uint32_t four[4] = {block.x, block.y, block.z, block.w};
  for (int c = 0; c < 4; ++c) words[4 * index + c] = four[c], values[4 * index + c] = gumbel(four[c]);
}

void check_choose() {
  constexpr int kTokens = 151936, kRows = 24;
  const uint64_t seed = 0x123456789ABCDEFull;
  uint32_t* words = lab::allocate<uint32_t>(kTokens);
  double* values = lab::allocate<double>(kTokens);
  dump_noise<<<kTokens / 4 / 32, 32>>>(seed, 1234, 0, words, values);
  const auto hwords = lab::download(words, kTokens);
  const auto hvalues = lab::download(values, kTokens);
  int wrong = 0, other = 0;
  const auto host_word = [](uint64_t s, int position, int token) {
    return ashlar::philox4x32({static_cast<uint32_t>(token) / 4, static_cast<uint32_t>(position), 0, 0},
                              static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32))[token % 4];
  };
  const auto host_gumbel = [](uint32_t word) { return -std::log(-std::log((word + 0.5) * 0x1p-32)); };
  double worst = 0;
  for (int t = 0; t < kTokens; ++t) {
    wrong += hwords[t] != host_word(seed, 1234, t);
    const double expected = host_gumbel(hwords[t]);
    other += hvalues[t] != expected;
    worst = std::max(worst, std::abs(hvalues[t] - expected));
  }
  report("Philox words", wrong == 0, wrong);
  report("Gumbel noise, largest difference to the host", worst < 1e-13, worst);
  std::printf("  %d of %d values differ in their last bits\n", other, kTokens);

  float* worst_float = lab::allocate<float>(1);
  CHECK(cudaMemset(worst_float, 0, 4));
  if (!quick) worst_about<<<1024, 256>>>(worst_float);
  report("fp32 Gumbel noise, largest error", lab::download(worst_float, 1)[0] < 2e-4F, lab::download(worst_float, 1)[0]);
  bf16* half = lab::random_bf16(int64_t{kRows} * kTokens, 3, 2.0F);
  const auto hhalf = lab::download(half, int64_t{kRows} * kTokens);
  std::vector<float> logits(hhalf.size());
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = wide(hhalf[i]);
  for (int t = 0; t < kTokens; ++t) logits[3 * kTokens + t] = NAN;
  logits[4 * kTokens + 7] = NAN;
  logits[5 * kTokens + 9] = logits[5 * kTokens + 8] = logits[5 * kTokens + 100000] = 900;
  std::vector<Draw> draws(kRows);
  for (int r = 0; r < kRows; ++r) draws[r] = {seed + r % 7, 50 + r, r % 3 == 0 ? 0.0F : 1.0F / (0.3F + 0.2F * (r % 5)), 0};
  draws[5].inverse_temperature = 0;
  const float* device_logits = upload(logits);
  const Draw* device_draws = upload(draws);
  int32_t* ids = lab::allocate<int32_t>(kRows);
  choose<<<kRows * kChooseBlocks, kChooseThreads>>>(device_logits, kTokens, kTokens, device_draws, ids);
  CHECK(cudaGetLastError());
  const auto got = lab::download(ids, kRows);
  int mistakes = 0;
  for (int r = 0; r < kRows; ++r) {
    int best = -1;
    double highest = 0;
    for (int t = 0; t < kTokens; ++t) {
      const float logit = logits[int64_t{r} * kTokens + t];
      if (!(logit > -INFINITY)) continue;
      double value = logit;
      if (draws[r].inverse_temperature > 0) {
        value = static_cast<double>(logit * draws[r].inverse_temperature) + host_gumbel(host_word(draws[r].seed, draws[r].position, t));
      }
      if (best < 0 || value > highest) highest = value, best = t;
    }
    if (got[r] != best) std::printf("  row %d: %d, expected %d\n", r, got[r], best), ++mistakes;
  }
  report("choose: argmax and Gumbel draws", mistakes == 0, mistakes);
  for (const int rows : {1, 16}) {
    if (quick) break;
    for (const bool drawn : {false, true}) {
      std::vector<Draw> same(kRows, Draw{seed, 9, drawn ? 1.0F : 0.0F, 0});
      const Draw* device_same = upload(same);
      const double us = lab::time_graph(16, [&](cudaStream_t stream, int i) {
        choose<<<rows * kChooseBlocks, kChooseThreads, 0, stream>>>(device_logits + int64_t{i % 8} * kTokens, kTokens, kTokens, device_same, ids);
      });
      std::printf("  choose %2d rows%s: %.2f us\n", rows, drawn ? " with noise" : "", us);
    }
  }
}

void time_small() {
  constexpr int kMost = 512, kHidden = 4096, kWidth = 12288;
  bf16* x = lab::random_bf16(int64_t{kMost} * kHidden, 1, 1.0F);
  bf16* out = lab::allocate<bf16>(int64_t{kMost} * kHidden);
  const float* w = upload(norm_weights(kHidden));
  bf16* gates = lab::random_bf16(int64_t{kMost} * 2 * kWidth, 1, 1.0F);
  bf16* gated = lab::allocate<bf16>(int64_t{kMost} * kWidth);
  const int heads = 48;
  FinishCall call = {};
  call.qkv = lab::random_bf16(int64_t{kMost} * heads * 128, 8, 1.0F);
  call.stride = heads * 128, call.q_heads = 32, call.n_kv_heads = 8;
  call.q_norm = call.k_norm = upload(norm_weights(128));
  call.eps = 1e-6F;
  call.cos = upload(std::vector<float>(kMost * 64, 0.6F)), call.sin = upload(std::vector<float>(kMost * 64, 0.8F));
  std::vector<int32_t> positions(kMost), pages(kMost / 16);
  for (int i = 0; i < kMost; ++i) positions[i] = i;
  for (int i = 0; i < kMost / 16; ++i) pages[i] = i;
  call.positions = upload(positions), call.tables = upload(std::vector<int32_t>(kMost, 0)), call.page_tables = upload(pages);
  call.max_pages = kMost / 16, call.page_stride = 8 * 2 * 16 * 128 * 2;
  call.kv = lab::allocate<char>(call.page_stride * (kMost / 16));
  for (const int rows : {1, 16, 512}) {
    call.rows = rows;
    const double norm = lab::time_graph(32, [&](cudaStream_t stream, int) {
      rms_norm<512, 1><<<rows, 512, 0, stream>>>(x, kHidden, nullptr, 0, w, 1e-6F, kHidden, out, kHidden);
    });
    const double finish = lab::time_graph(32, [&](cudaStream_t stream, int) {
      finish_qkv<128><<<(rows * heads + 3) / 4, 128, 0, stream>>>(call);
    });
    const double silu = lab::time_graph(32, [&](cudaStream_t stream, int) {
      silu_product<<<dim3(kWidth / 8 / 128, rows), 128, 0, stream>>>(gates, 2 * kWidth, kWidth, gated, kWidth);
    });
    std::printf("  %3d rows: rms_norm %.2f us, q/k norm + rope + store %.2f us, silu * up %.2f us\n", rows, norm, finish, silu);
  }
}

}  // namespace

int main(int argc, char**) {
  quick = argc > 1;
  check_rms_norm<512, 1>(4096);
  check_rms_norm<128, 1>(1024);
  check_rms_norm<128, 4>(2560);
  check_finish<128>(32, 8);
  check_finish<128>(0, 8);
  check_finish<64>(9, 3);
  check_rows();
  check_choose();
  if (!quick) time_small();
  std::printf(all_good ? "small ops: all good\n" : "small ops: WRONG\n");
  return all_good ? 0 : 1;
}
