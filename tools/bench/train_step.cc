// SPDX-License-Identifier: Apache-2.0
// train_step DRAFTER_FOLDER [DOCUMENTS [TOKENS [STEPS [ANCHORS [DEVICE [COMPUTE [OPTIMISER]]]]]]]]: seconds a training
// step of the drafter that config.json describes, with random weights, head and hidden states; where they go; and what
// share of this machine's fp32 multiplications the products reach. Every token but the first eighth of a document is
// supervised.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/machine/cores.h"
#include "base/thread_pool.h"
#include "model/drafters/dflash_config.h"
#include "timed_train_ops.h"
#include "train/drafter_trainer.h"
#include "train/run/block_drafter.h"
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#define ASHLAR_BENCH_X86
#endif

namespace {

using namespace ashlar;

#ifdef ASHLAR_BENCH_X86
// Independent chains in registers: nothing but fused multiply-adds. Returns operations done.
__attribute__((target("avx512f"))) double multiply_add_512(float* out, int64_t rounds) {
  __m512 sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 x = _mm512_set1_ps(0.999F);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) sums[i] = _mm512_fmadd_ps(sums[i], x, x);
  }
  for (int i = 0; i < 16; ++i) *out += _mm512_cvtss_f32(sums[i]);
  return 2.0 * 16 * 16 * static_cast<double>(rounds);
}
__attribute__((target("avx2,fma"))) double multiply_add_256(float* out, int64_t rounds) {
  __m256 sums[12];
  for (int i = 0; i < 12; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 x = _mm256_set1_ps(0.999F);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm256_fmadd_ps(sums[i], x, x);
  }
  for (int i = 0; i < 12; ++i) *out += _mm256_cvtss_f32(sums[i]);
  return 2.0 * 12 * 8 * static_cast<double>(rounds);
}

/// Operations a second of all cores now.
double peak(ThreadPool& pool) {
  std::vector<float> outs(64 * static_cast<size_t>(pool.size()));
  std::vector<double> done(64 * static_cast<size_t>(pool.size()));
  const double begin = seconds_now();
  pool.run(pool.size(), [&](int32_t item, int32_t /*worker*/) {
    const size_t at = 64 * static_cast<size_t>(item);
    const bool wide = __builtin_cpu_supports("avx512f") != 0;
    done[at] = wide ? multiply_add_512(&outs[at], 8'000'000) : multiply_add_256(&outs[at], 8'000'000);
  });
  double sum = 0;
  for (const double operations : done) sum += operations;
  return sum / (seconds_now() - begin);
}
#else
double peak(ThreadPool& /*pool*/) { return 0; }
#endif

std::vector<float> noise(size_t n, float deviation) {
  std::vector<float> out(n);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.7F * deviation, 1.7F * deviation);
  for (float& value : out) value = uniform(random);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: train_step DRAFTER_FOLDER [DOCUMENTS [TOKENS [STEPS [ANCHORS [DEVICE [COMPUTE "
                 "[OPTIMISER]]]]]]]\n");
    return 2;
  }
  const auto number = [&](int index, int32_t missing) { return argc > index ? std::atoi(argv[index]) : missing; };
  const int32_t documents = number(2, 1);
  const int32_t tokens = number(3, 640);
  const int32_t steps = number(4, 5);
  const TrainShape shape = train_shape(read_dflash_config(argv[1]));
  TimedTrainOps ops(make_train_ops(argc > 6 ? argv[6] : "cpu", {}));
  TrainSettings settings;
  settings.total_steps = steps + 1;
  settings.max_anchors = number(5, settings.max_anchors);
  const bool narrow = argc > 7 ? argv[7] == std::string("bf16") : ops.takes(DType::kBF16);
  settings.compute = narrow ? DType::kBF16 : DType::kF32;
  if (argc > 8 && argv[8] == std::string("muon")) settings.matrices = MatrixOptimiser::kMuon;
  const std::vector<float> head = noise(static_cast<size_t>(shape.vocab) * shape.hidden, 0.1F);
  DrafterTrainer trainer(ops, shape, settings, head, head);
  trainer.initialise(1);

  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (int32_t i = 0; i < tokens; ++i) ids[static_cast<size_t>(i)] = i * 7919 % shape.vocab;
  std::vector<uint8_t> supervised(ids.size(), 1);
  std::fill_n(supervised.begin(), tokens / 8, 0);
  const std::vector<float> aux_hidden = noise(ids.size() * shape.aux_width, 1);
  const std::unique_ptr<Buffer> hidden = ops.allocate(aux_hidden.size() * sizeof(float));
  ops.upload(aux_hidden.data(), hidden->data(), hidden->size());
  ops.wait();
  const TrainDocument document = {ids, supervised, {hidden->data(), tokens, shape.aux_width, shape.aux_width}};
  const std::vector<TrainDocument> batch(static_cast<size_t>(documents), document);

  TrainReport report = trainer.step(batch);
  ops.wait();
  // In between, what the machine can do meanwhile: it may have other work.
  ThreadPool pool;
  double fastest = 1e30;
  double total = 0;
  double most = 0;
  for (int32_t step = 0; step < steps; ++step) {
    most += peak(pool) / steps;
    const double from = seconds_now();
    report = trainer.step(batch);
    ops.wait();
    const double seconds = seconds_now() - from;
    total += seconds;
    fastest = std::min(fastest, seconds);
  }
  ops.uses.clear();
  ops.waits = true;  // where the time goes: of one step more
  const double begin = seconds_now();
  trainer.step(batch);
  const double apart = seconds_now() - begin;
  std::printf("fused multiply-adds in registers: %.0f GFLOP/s\n", most * 1e-9);
  TimedTrainOps::Use all;
  for (const auto& [name, use] : ops.uses) {
    all.operations += use.operations;
    all.seconds += use.seconds;
    std::printf("%-34s %8.1f ms  %5.1f %%", name.c_str(), use.seconds * 1e3, 100 * use.seconds / apart);
    if (use.operations > 0) std::printf("  %6.0f GFLOP/s", use.operations / use.seconds * 1e-9);
    std::printf("\n");
  }
  const double rate = all.operations * steps / total;
  std::printf("outside ops %.1f ms; loss %.4f\n", (apart - all.seconds) * 1e3, report.loss);
  std::printf("%d blocks, %.1f GFLOP: %.3f s a step (fastest %.3f), %.0f GFLOP/s, %.0f %% of the peak\n", report.blocks,
              all.operations * 1e-9, total / steps, fastest, rate * 1e-9, most > 0 ? 100 * rate / most : 0.0);
  return 0;
}
