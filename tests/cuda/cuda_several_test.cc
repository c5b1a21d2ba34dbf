// SPDX-License-Identifier: Apache-2.0
// Several GPUs: sums over them, and a model on the second one. Skipped where there is one.

#include <cstring>
#include <random>
#include <thread>

#include "cuda/on_gpu.h"
#include "device/replicas/all_reduce.h"
#include "device/train_ops.h"
#include "golden/engine_answers.h"

namespace ashlar::testing {
namespace {

class SeveralGpus : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    try {
      second_ = make_device("cuda:1", {});
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::unique_ptr<Ops> second_;
};

// More than a bucket, the last one odd; in memory that the host addresses too, as gradients are. Two numbers have one
// sum, whatever the way they take.
TEST_F(SeveralGpus, AllHaveTheSums) {
  const std::string devices[] = {"cuda:0", "cuda:1"};
  std::vector<std::unique_ptr<AllReduce>> ends;
  try {
    ends = connect_replicas(devices);
  } catch (const std::exception& error) {
    GTEST_SKIP() << error.what();
  }
  constexpr int64_t kValues = (int64_t{1} << 24) + 1'000'003;
  std::unique_ptr<TrainOps> ops[2];
  std::unique_ptr<Buffer> memory[2];
  float* values[2];
  for (size_t i = 0; i < 2; ++i) {
    ops[i] = make_train_ops(devices[i], {});
    memory[i] = ops[i]->allocate_shared(sizeof(float) * kValues);
    values[i] = reinterpret_cast<float*>(memory[i]->data());
  }
  for (int round = 0; round < 3; ++round) {
    std::mt19937 random(static_cast<uint32_t>(round));
    std::vector<float> expected(kValues);
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t gpu = 0; gpu < 2; ++gpu) values[gpu][i] = static_cast<float>(random()) * 0x1p-31F - 1;
      expected[i] = values[0][i] + values[1][i];
    }
    std::vector<std::thread> threads;
    for (size_t gpu = 0; gpu < 2; ++gpu) {
      threads.emplace_back([&, gpu] {
        ops[gpu]->wait();
        ends[gpu]->sum(values[gpu], kValues);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const float* found : values) {
      EXPECT_EQ(std::memcmp(found, expected.data(), sizeof(float) * expected.size()), 0);
    }
  }
}

// One after the other from the same thread, so that it goes from GPU to GPU; then both at once.
TEST_F(SeveralGpus, AModelAnswersTheSameOnEach) {
  Ops* const devices[] = {ops_.get(), second_.get()};
  std::unique_ptr<Model> models[2];
  for (size_t i = 0; i < 2; ++i) models[i] = Model::load(*devices[i], models_folder() / "pebble-11m", 320);
  const auto answer = [&](size_t i) {
    const auto engine = open_engine(*devices[i], *models[i], {}, 320);
    Request request;
    for (int32_t id = 10; id < 40; ++id) request.prompt.push_back(id);
    request.max_tokens = 64;
    return run_together(*engine, {request})[0].tokens;
  };
  const std::vector<int32_t> first = answer(0);
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(answer(1), first);
  std::vector<int32_t> found[2];
  std::thread other([&] { found[1] = answer(1); });
  found[0] = answer(0);
  other.join();
  for (const std::vector<int32_t>& one : found) EXPECT_EQ(one, first);
}

}  // namespace
}  // namespace ashlar::testing
