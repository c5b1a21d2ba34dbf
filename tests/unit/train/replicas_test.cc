// SPDX-License-Identifier: Apache-2.0
// Training by several replicas: how a step is split and added up, and that the whole is what one would have computed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "device/device_name.h"
#include "device/replicas/replica_barrier.h"
#include "temp_folder.h"
#include "train/replicas/batch_split.h"
#include "train/replicas/replica_threads.h"
#include "train/replicas/train_devices.h"
#include "train/run/train_run.h"
#include "unit/train/tiny_target.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs that are resumed depend on it.
TEST(BatchSplit, GivesTheCostliestFirstToWhoHasLeast) {
  EXPECT_THAT(split_evenly(std::vector<int64_t>{3, 9, 4, 4, 2}, 2), ElementsAre(1, 0, 1, 1, 0));
  EXPECT_THAT(split_evenly(std::vector<int64_t>{5, 5, 5}, 2), ElementsAre(0, 1, 0));
  EXPECT_THAT(split_evenly(std::vector<int64_t>{7}, 3), ElementsAre(0));
  EXPECT_THAT(split_evenly(std::vector<int64_t>{}, 2), ElementsAre());
}

TEST(BatchSplit, SharesDifferByOneItemAtMost) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> costs(random() % 40);
    for (int64_t& cost : costs) cost = 1 + random() % 1000;
    const int32_t shares = 1 + static_cast<int32_t>(random() % 8);
    std::vector<int64_t> sums(static_cast<size_t>(shares));
    const std::vector<int32_t> share_of = split_evenly(costs, shares);
    ASSERT_EQ(share_of.size(), costs.size());
    for (size_t i = 0; i < costs.size(); ++i) sums.at(static_cast<size_t>(share_of[i])) += costs[i];
    const int64_t most = costs.empty() ? 0 : *std::max_element(costs.begin(), costs.end());
    EXPECT_LE(*std::max_element(sums.begin(), sums.end()) - *std::min_element(sums.begin(), sums.end()), most);
  }
}

TEST(AllReduceOnTheHost, GivesEveryReplicaTheSumInTheOrderOfReplicas) {
  for (const int32_t replicas : {1, 2, 3, 5}) {
    const auto ends = connect_replicas(std::vector<std::string>(static_cast<size_t>(replicas), "ref"));
    ReplicaThreads threads(replicas);
    for (const int64_t n : {0, 1, 2, 7, 1000}) {
      std::mt19937 random(static_cast<uint32_t>(n));
      std::normal_distribution<float> normal(0, 1);
      std::vector<std::vector<float>> values(static_cast<size_t>(replicas), std::vector<float>(static_cast<size_t>(n)));
      std::vector<float> sums(static_cast<size_t>(n));
      for (auto& of_one : values) {
        for (float& value : of_one) value = normal(random);
        for (size_t i = 0; i < sums.size(); ++i) sums[i] = &of_one == &values[0] ? of_one[i] : sums[i] + of_one[i];
      }
      std::vector<double> figures(static_cast<size_t>(replicas));
      threads.run(
          [&](int32_t replica) {
            const auto at = static_cast<size_t>(replica);
            ends[at]->sum(values[at].data(), n);
            double figure = 0.1 * replica;
            ends[at]->sum({&figure, 1});
            figures[at] = figure;
          },
          [](int32_t) {});
      double figure = 0;
      for (int32_t replica = 0; replica < replicas; ++replica) figure += 0.1 * replica;
      for (const auto& of_one : values) EXPECT_EQ(of_one, sums) << n << " values, " << replicas << " replicas";
      for (const double one : figures) EXPECT_EQ(one, figure);
    }
  }
}

TEST(AllReduceOnTheHost, NoReplicaWaitsForOneThatFailed) {
  for (const int32_t failing : {0, 1, 2}) {
    const auto ends = connect_replicas(std::vector<std::string>(3, "cpu"));
    ReplicaThreads threads(3);
    const auto step = [&](int32_t replica) {
      const auto at = static_cast<size_t>(replica);
      std::vector<float> values(10);
      ends[at]->sum(values.data(), 10);
      if (replica == failing) throw Error("memory", "is short");
      ends[at]->sum(values.data(), 10);
    };
    const auto run = [&] {
      threads.run(step, [&](int32_t replica) { ends[static_cast<size_t>(replica)]->abandon(); });
    };
    try {
      run();
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "[memory] is short");
    }
    EXPECT_THROW(run(), Error);  // the group is of no use any more, and says so
  }
}

// As a GPU's sum that has begun: its end depends on one that fails.
TEST(ReplicaBarrier, EndsWhatWouldLastForEver) {
  for (const int32_t failing : {0, 1, 2}) {
    ReplicaBarrier barrier(3);
    ReplicaThreads threads(3);
    std::array<std::string, 3> ends;
    std::atomic<int> asked = 0;
    const auto sum = [&](int32_t replica) {
      barrier.wait();
      try {
        while (replica != failing) {
          ++asked;
          barrier.check();
        }
        while (asked < 100) std::this_thread::yield();  // the others are in the midst of it
        throw Error("cuda", "the GPU is lost");
      } catch (const Error& error) {
        ends[static_cast<size_t>(replica)] = error.what();
        throw;
      }
    };
    try {
      threads.run(sum, [&](int32_t) { barrier.abandon(); });
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "[cuda] the GPU is lost");  // not what the others say
    }
    for (int32_t replica = 0; replica < 3; ++replica) {
      const bool first = replica == failing;
      EXPECT_EQ(ends[static_cast<size_t>(replica)],
                first ? "[cuda] the GPU is lost" : "[train] another replica of the trainer failed");
    }
  }
  ReplicaBarrier(2).check();
}

class Replicas : public TinyTarget {
 protected:
  Replicas() : TinyTarget(one_thread(), 20, 59) {}

  TrainOptions options(int32_t replicas, int64_t steps = 4, const fs::path& output = {}) const {
    TrainOptions options;
    options.output = output;
    options.steps = steps;
    options.batch_tokens = 200;
    options.max_length = 64;
    options.learning_rate = 3e-3;
    options.gpus = replicas;
    return options;
  }
  TrainDevices devices(int32_t replicas, const std::string& device = "cpu") {
    return {*model_, std::vector<std::string>(static_cast<size_t>(replicas), device), one_thread()};
  }
};

const std::function<bool()> kGoOn = [] { return false; };

// Every replica is given all documents of a step, each of which is in one of them: the same whatever the device.
TEST_F(Replicas, HaveEachDocumentOnce) {
  struct Watching : Trainer {
    TrainReport step(std::span<const TrainDocument> documents) override {
      for (const TrainDocument& one : documents) {
        lengths.push_back(one.ids.size());
        here.push_back(!one.is_elsewhere());
        EXPECT_EQ(static_cast<size_t>(one.aux_hidden.rows), one.is_elsewhere() ? 0 : one.ids.size());
      }
      return {};
    }
    TrainReport evaluate(std::span<const TrainDocument>) override { return {}; }
    int32_t accepted(const TrainDocument&, int32_t) override { return 0; }
    std::span<const TrainParameter> parameters() override { return {}; }
    void set_steps_done(int64_t) override {}
    DType compute() const override { return DType::kF32; }
    int64_t step_bytes(int64_t) const override { return 0; }
    std::vector<size_t> lengths;
    std::vector<int> here;
  };
  std::vector<Watching*> watching;
  const MakeTrainer make_trainer = [&](const TrainedDrafter&, const TrainOptions&) {
    auto trainer = std::make_unique<Watching>();
    watching.push_back(trainer.get());
    return trainer;
  };
  const auto second_ops = make_device("cpu", one_thread()), third_ops = make_device("ref", one_thread());
  const auto second = Model::load(*second_ops, checkpoint_.folder(), 128);
  const auto third = Model::load(*third_ops, checkpoint_.folder(), 128);
  const TrainPlace places[] = {{model_.get(), make_trainer}, {second.get(), make_trainer}, {third.get(), make_trainer}};
  TrainRun run(places, documents_, block_drafter(drafter_), options(3));
  for (int step = 0; step < 12; ++step) run.step();
  ASSERT_EQ(watching.size(), 3u);
  ASSERT_GT(watching[0]->lengths.size(), 30u);
  for (const Watching* one : watching) EXPECT_EQ(one->lengths, watching[0]->lengths);
  for (size_t i = 0; i < watching[0]->here.size(); ++i) {
    EXPECT_EQ(watching[0]->here[i] + watching[1]->here[i] + watching[2]->here[i], 1) << i;
  }
}

// Sums of a step's rows in another order: each rounds once a term, so that a sum of n terms is off by at most n times
// 2^-24 of the sum of their magnitudes, and each step begins where the one before came to. Adam moves a weight by the
// learning rate even where the gradient is nothing but such an error: the loss, which does not depend on that weight
// then, stays within the bound, and later gradients, which may, are not compared.
TEST_F(Replicas, LearnWhatOneWouldHaveLearnt) {
  constexpr int kSteps = 6;
  for (const MatrixOptimiser optimiser : {MatrixOptimiser::kAdamW, MatrixOptimiser::kMuon}) {
    for (const std::string device : {"cpu", "ref"}) {
      std::vector<TrainReport> alone;
      for (const int32_t replicas : {1, 2, 3}) {
        const TrainDevices several = devices(replicas, device);
        TrainOptions asked = options(replicas, kSteps);
        asked.optimiser = optimiser;
        TrainRun run(several.places(), documents_, block_drafter(drafter_), asked);
        const int steps = device == "ref" ? 2 : kSteps;
        for (int step = 0; step < steps; ++step) {
          const TrainReport report = run.step().report;
          ASSERT_FALSE(report.skipped);
          if (replicas == 1) {
            alone.push_back(report);
            continue;
          }
          const TrainReport& expected = alone[static_cast<size_t>(step)];
          const double rows = expected.blocks * drafter_.block_size + asked.batch_tokens;
          const double bound = (step + 1) * rows * 0x1p-24;
          EXPECT_EQ(report.blocks, expected.blocks);
          EXPECT_EQ(report.labels, expected.labels);
          EXPECT_NEAR(report.loss, expected.loss, bound * expected.loss) << device << ", step " << step;
          if (step > 0) continue;
          EXPECT_NEAR(report.gradient_norm, expected.gradient_norm, bound * expected.gradient_norm) << device;
          EXPECT_EQ(report.position_accuracy.size(), expected.position_accuracy.size());
        }
        const std::span<const TrainParameter> first = run.parameters();
        for (int32_t other = 1; other < replicas; ++other) {
          const std::span<const TrainParameter> second = run.parameters(other);
          ASSERT_EQ(first.size(), second.size());
          for (size_t i = 0; i < first.size(); ++i) {
            for (const auto part :
                 {&TrainParameter::values, &TrainParameter::gradient, &TrainParameter::m, &TrainParameter::v}) {
              ASSERT_NE((first[i].*part).data(), (second[i].*part).data());
              EXPECT_EQ(std::memcmp((first[i].*part).data(), (second[i].*part).data(), (first[i].*part).size_bytes()),
                        0)
                  << first[i].name << " of replica " << other;
            }
          }
        }
      }
    }
  }
}

// Steps with one document leave the others nothing to compute, and they take part all the same.
TEST_F(Replicas, MayHaveNothingToDo) {
  const TrainDevices several = devices(3);
  TrainOptions asked = options(3);
  asked.batch_tokens = 1;
  TrainRun run(several.places(), documents_, block_drafter(drafter_), asked);
  for (int step = 0; step < 4; ++step) EXPECT_FALSE(run.step().report.skipped);
  EXPECT_EQ(std::memcmp(run.parameters(0)[0].values.data(), run.parameters(2)[0].values.data(),
                        run.parameters(0)[0].values.size_bytes()),
            0);
}

TEST_F(Replicas, GoOnToTheBitAndOnlyAsManyAsTheyWere) {
  const TempFolder folder;
  const TrainDevices several = devices(2), one = devices(1);
  const auto make = [&](const char* name) { return options(2, 4, folder / name); };
  EXPECT_TRUE(TrainRun(several.places(), documents_, block_drafter(drafter_), make("whole")).run(quiet_, kGoOn));
  int left = 2;
  EXPECT_FALSE(TrainRun(several.places(), documents_, block_drafter(drafter_), make("parts")).run(quiet_, [&] {
    return left-- == 0;
  }));
  TrainRun rest(several.places(), documents_, block_drafter(drafter_), make("parts"));
  rest.resume();
  EXPECT_TRUE(rest.run(quiet_, kGoOn));
  for (const char* file : {TrainRun::kState, "model.safetensors"}) {
    EXPECT_EQ(bytes(folder / "parts" / file), bytes(folder / "whole" / file)) << file;
  }
  TrainRun fewer(one.places(), documents_, block_drafter(drafter_), options(1, 4, folder / "parts"));
  try {
    fewer.resume();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("was trained with gpus 2, and now it is 1"));
  }
}

TEST_F(Replicas, AreNotWrittenOnceTheyDiffer) {
  const TempFolder folder;
  const TrainDevices several = devices(2);
  TrainRun run(several.places(), documents_, block_drafter(drafter_), options(2, 4, folder / "d"));
  run.step();
  EXPECT_NO_THROW(run.save());
  float& value = run.parameters(1)[3].values[7];
  value = std::nextafter(value, 1.0F);
  try {
    run.save();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("after step 1 GPU 1 has another " + run.parameters()[3].name));
  }
}

TEST(DevicesFrom, CountOnFromTheNamedOne) {
  EXPECT_THAT(devices_from("cpu", 1), ElementsAre("cpu"));
  EXPECT_THROW(devices_from("cpu", 2), Error);
  EXPECT_THROW(devices_from("gpu", 1), Error);
  for (const char* name : {"cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999"}) {
    EXPECT_THROW(check_device_name(name), Error) << name;
  }
  const std::vector<std::string> names = device_names();
  if (std::ranges::find(names, "cuda") == names.end()) GTEST_SKIP() << "this build has no cuda device";
  EXPECT_THAT(devices_from("cuda", 1), ElementsAre("cuda"));
  EXPECT_THAT(devices_from("cuda", 2), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(devices_from("cuda:2", 3), ElementsAre("cuda:2", "cuda:3", "cuda:4"));
  EXPECT_NO_THROW(check_device_name("cuda:7"));
}

}  // namespace
}  // namespace ashlar
