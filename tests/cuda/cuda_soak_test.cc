// SPDX-License-Identifier: Apache-2.0
// Ten thousand sampled steps on a GPU: what was answered at the start is answered at the end, drafts are accepted as
// often, and the second half takes no memory: pools and graphs are made in the first.

#include <chrono>
#include <thread>

#include "base/machine/available_memory.h"
#include "cuda/on_gpu.h"
#include "equivalence/suite.h"

namespace ashlar::testing {
namespace {

class SoakOnGpu : public OnGpu {};

// A wave of eight answers together, with seeds of one of four kinds.
struct Wave {
  std::vector<std::vector<int32_t>> tokens;
  int64_t drafted = 0, accepted = 0;
};

Wave answer_wave(Engine& engine, const std::vector<int32_t>& stop_ids, uint64_t kind) {
  std::vector<Request> requests = suite::requests(hot_sampling(), stop_ids);
  requests.resize(8);
  for (Request& request : requests) request.sampling.seed += kind;
  Wave wave;
  for (Answer& answer : run_together(engine, std::move(requests))) {
    wave.tokens.push_back(std::move(answer.tokens));
    wave.drafted += answer.end.stats.drafted;
    wave.accepted += answer.end.stats.accepted;
  }
  return wave;
}

TEST_F(SoakOnGpu, TenThousandSampledStepsEndAsTheyBegan) {
  constexpr uint64_t kKinds = 4, kSteps = 10'000;
  constexpr int64_t kOthers = int64_t{8} << 20;  // what other programs may take meanwhile
  const auto model = Model::load(*ops_, models_folder() / "pebble-11m", suite::kLongest);
  Configuration configuration;
  configuration.decoder = {"dflash", models_folder() / "pebble-11m-dflash", {16, 0, 1, DenoiseSchedule::kCosine, 0}};
  const auto engine = open_engine(*ops_, *model, configuration, suite::kLongest);
  std::vector<Wave> first;
  for (uint64_t kind = 0; kind < kKinds; ++kind) first.push_back(answer_wave(*engine, model->config().stop_ids, kind));
  int64_t before = 0, waves = 0, mismatches = 0;
  Wave last;
  while (engine->counters().steps < kSteps) {
    if (before == 0 && engine->counters().steps > kSteps / 2) before = ops_->available_memory().bytes;
    const uint64_t kind = static_cast<uint64_t>(waves++) % kKinds;
    last = answer_wave(*engine, model->config().stop_ids, kind);
    mismatches += last.tokens == first[kind].tokens ? 0 : 1;
    const auto share = [](const Wave& wave) {
      return static_cast<double>(wave.accepted) / static_cast<double>(std::max<int64_t>(1, wave.drafted));
    };
    EXPECT_NEAR(share(last), share(first[kind]), 0.02 * share(first[kind])) << "wave " << waves;
    if (HasFailure()) break;
  }
  EXPECT_EQ(mismatches, 0);
  EXPECT_GT(last.accepted, 0);
  ASSERT_GT(before, 0);
  int64_t gone = 0;
  for (int look = 0; look < 100; ++look) {
    gone = before - ops_->available_memory().bytes;
    if (gone <= kOthers) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_LE(gone, kOthers);
  std::printf(
      "%llu sampled steps, %lld waves of answers: %lld with other tokens; %lld KiB of the GPU's memory are gone\n",
      static_cast<unsigned long long>(engine->counters().steps), static_cast<long long>(waves),
      static_cast<long long>(mismatches), static_cast<long long>(gone >> 10));
}

}  // namespace
}  // namespace ashlar::testing
