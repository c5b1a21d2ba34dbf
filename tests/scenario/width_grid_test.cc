// SPDX-License-Identifier: Apache-2.0
// Speculation must not lose: what the policy reaches on simulated devices, by context, number of sequences and
// acceptance, against plain decoding and the best of all fixed widths.

#include <gtest/gtest.h>

#include "unit/decode/simulated_device.h"

namespace ashlar::testing {
namespace {

constexpr int kSteps = 3000;
constexpr int kFrom = 300;

struct Machine {
  const char* name;
  double verify_row, verify_key, verify_row_key, draft, draft_row, draft_key, draft_row_key;
};

// Times of one plain step in a short context. A wide GPU reads K and V; a CPU computes attention row by row; on a small
// model rows are dear and the drafter is a third of it.
constexpr Machine kMachines[] = {
    {"gpu", 0.004, 9e-6, 2e-7, 0.15, 0.001, 1.2e-6, 3e-8},
    {"cpu", 0.03, 9e-6, 6e-6, 0.15, 0.004, 1.2e-6, 8e-7},
    {"small", 0.12, 2e-5, 3e-5, 0.35, 0.03, 6e-6, 1e-5},
};

SimulatedDevice device_of(const Machine& machine) {
  SimulatedDevice device;
  device.verify = {line(1 - machine.verify_row, machine.verify_row), machine.verify_key, machine.verify_row_key};
  device.answer = 200;
  device.draft = {line(machine.draft, machine.draft_row), machine.draft_key, machine.draft_row_key};
  return device;
}

/// Over `runs` runs with draws of their own.
void expect_never_loses(const SimulatedDevice& device, const std::vector<SimulatedSequence>& sequences,
                        const std::string& what, const FixedWidths& fixed, uint32_t runs = 1) {
  SimulatedRun all;
  for (uint32_t i = 0; i < runs; ++i) {
    SimulatedDevice one = device;
    one.seed += 2 * i;
    const SimulatedRun run = simulate(one, sequences, kSteps, kFrom);
    all.tokens += run.tokens, all.time += run.time, all.width += run.width / runs;
  }
  EXPECT_GE(all.rate(), 0.98 * fixed.plain) << what << ", best fixed width " << fixed.best_width;
  EXPECT_GE(all.rate(), 0.95 * fixed.best) << what << ", best fixed width " << fixed.best_width << " gains "
                                           << fixed.best / fixed.plain << ", mean width " << all.width;
}

void expect_never_loses(const SimulatedDevice& device, const std::vector<SimulatedSequence>& sequences,
                        const std::string& what, uint32_t runs = 1) {
  expect_never_loses(device, sequences, what, simulate_fixed(device, sequences, kSteps, kFrom), runs);
}

class WidthGrid : public ::testing::TestWithParam<int32_t> {};

TEST_P(WidthGrid, NeverLosesAtAnyContext) {
  const int32_t context = GetParam();
  for (const Machine& machine : kMachines) {
    SimulatedDevice device = device_of(machine);
    device.grows = false;
    for (const int32_t n : {1, 4, 16, 32}) {
      for (const double chance : {0.1, 0.4, 0.7, 0.9}) {
        const SimulatedSequence sequence = {context, chance};
        expect_never_loses(device, std::vector<SimulatedSequence>(static_cast<size_t>(n), sequence),
                           std::string(machine.name) + ", context " + std::to_string(context) + ", " +
                               std::to_string(n) + " sequences, chance " + std::to_string(chance),
                           expected_fixed(device, n, sequence));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, WidthGrid, ::testing::Values(200, 4000, 16000, 30000));

// Short and long contexts, predictable and other texts in one batch.
TEST(WidthGrid, MixedContexts) {
  for (const Machine& machine : kMachines) {
    for (const double of_long : {0.3, 0.6, 0.9}) {
      std::vector<SimulatedSequence> sequences;
      for (int32_t s = 0; s < 16; ++s) {
        sequences.push_back(s % 4 == 0 ? SimulatedSequence{30000, of_long} : SimulatedSequence{200, 0.7});
      }
      expect_never_loses(device_of(machine), sequences, machine.name + std::to_string(of_long));
    }
  }
}

// A neighbour who takes nearly half of the machine for a hundred steps, now and then; passes that waited for something.
// What a run loses to them is luck: up to 6 % in one of four, so hundreds are added up.
TEST(WidthGrid, NoisyNeighbours) {
  for (const Machine& machine : kMachines) {
    for (const int32_t context : {200, 16000}) {
      for (const double chance : {0.3, 0.6}) {
        SimulatedDevice device = device_of(machine);
        device.slower = [](int step) { return step % 700 < 100 ? 1.8 : 1.0; };
        device.noise = [](std::mt19937& random) {
          std::uniform_real_distribution<double> uniform;
          const double usual = 0.9 + 0.2 * uniform(random);
          return uniform(random) < 0.03 ? 4 * usual : usual;
        };
        expect_never_loses(device, std::vector<SimulatedSequence>(4, {context, chance}),
                           std::string(machine.name) + std::to_string(context) + " " + std::to_string(chance), 10);
      }
    }
  }
}

// Texts that go from easy to hard and back, as code does among prose.
TEST(WidthGrid, TextsThatChange) {
  for (const Machine& machine : kMachines) {
    for (const int32_t context : {200, 16000}) {
      SimulatedDevice device = device_of(machine);
      device.text = [](int step, double chance) { return step % 400 < 200 ? chance : 0.2; };
      expect_never_loses(device, std::vector<SimulatedSequence>(4, {context, 0.85}),
                         std::string(machine.name) + std::to_string(context));
    }
  }
}

// What a calibration got wrong: attention takes twice as much, or half.
TEST(WidthGrid, CorrectsWhatWasMeasuredWrongly) {
  for (const Machine& machine : kMachines) {
    for (const double wrong : {0.5, 2.0}) {
      SimulatedDevice device = device_of(machine);
      device.truth = [&, cost = device.verify](int32_t, const PassLoad& load) {
        const double context = cost.of(load) - cost.rows.at(load.rows);
        return (cost.rows.at(load.rows) + wrong * context) / cost.of(load);
      };
      expect_never_loses(device, std::vector<SimulatedSequence>(4, {16000, 0.6}),
                         std::string(machine.name) + std::to_string(wrong));
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
