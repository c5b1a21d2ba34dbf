// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device whose steps take what its costs say and texts whose drafts are accepted by chance, all from one seed: what a
// policy reaches there is a number, not a measurement.

#include <cmath>
#include <functional>
#include <random>

#include "decode/policy/width_policy.h"

namespace ashlar::testing {

/// What rows cost on a machine where every row takes as long as the one before it.
inline RowCost line(double fixed, double per_row) {
  RowCost cost;
  cost.add(1, fixed + per_row);
  cost.add(16, fixed + 16 * per_row);
  return cost;
}

inline void set_costs(WidthPolicy& policy, RowCost verify, RowCost draft, double steady = 1.0) {
  policy.costs().set({std::move(verify)}, {std::move(draft)}, steady);
}

/// One text: tokens before it, and the chance that a draft is accepted if those before it are.
struct SimulatedSequence {
  int32_t context = 0;
  double chance = 0.6;
};

struct SimulatedDevice {
  PassCost verify, draft;  ///< what is calibrated
  int32_t max_width = 16;
  bool grows = true;   ///< contexts, by what is decoded
  int32_t answer = 0;  ///< steps of a sequence before another one like it takes its slot; 0: it goes on
  /// Times what the costs say, by what is measured and the step. What slows a step down slows down every policy.
  std::function<double(int32_t n, const PassLoad& verified)> truth = [](int32_t, const PassLoad&) { return 1.0; };
  std::function<double(const PassLoad& drafted)> draft_truth = [](const PassLoad&) { return 1.0; };
  double steady = 1.0;  ///< what passes without drafts take, once some came in a row
  double calibrated_steady = 1.0;
  std::function<double(int step)> slower = [](int) { return 1.0; };                ///< both passes
  std::function<double(std::mt19937&)> noise = [](std::mt19937&) { return 1.0; };  ///< of a measurement alone
  std::function<double(int step, double chance)> text = [](int, double chance) { return chance; };
  uint32_t seed = 5;
};

/// What a run was like, from `from` on.
struct SimulatedRun {
  double tokens = 0, time = 0;
  double width = 0;         ///< mean of all spans
  double probed_share = 0;  ///< of the time: drafting
  bool hopeful = true;
  double rate() const { return tokens / time; }
};

/// Decodes `steps` steps of all sequences at once, each at the policy's width or, above 0, at this one.
inline SimulatedRun simulate(const SimulatedDevice& device, std::vector<SimulatedSequence> sequences, int steps,
                             int from, int32_t fixed_width = 0) {
  const auto n = static_cast<int32_t>(sequences.size());
  WidthPolicy policy(device.max_width, n);
  if (fixed_width == 0) policy.costs().set(device.verify, device.draft, device.calibrated_steady);
  std::mt19937 random(device.seed);
  std::mt19937 noise(device.seed + 1);
  std::uniform_real_distribution<double> uniform;
  std::vector<WidthChoice> choices;
  std::vector<int32_t> grown(sequences.size());
  SimulatedRun run;
  int without = 0;
  double spans = 0;
  for (int step = 0; step < steps; ++step) {
    choices.clear();
    for (int32_t s = 0; s < n; ++s) {
      if (device.answer > 0 && (step + 7 * s) % device.answer == 0) {
        policy.survival().admit(s);
        grown[s] = 0;
      }
      WidthChoice& choice = choices.emplace_back();
      choice.slot = s;
      choice.width = fixed_width > 0 ? fixed_width : 64;
      choice.keys = choice.draft_keys = sequences[s].context + (device.grows ? grown[s] % 512 : 0);
    }
    if (fixed_width == 0) policy.choose(choices);
    PassLoad verified, drafted;
    double tokens = 0;
    for (const WidthChoice& choice : choices) {
      verified.add(choice.width, choice.keys);
      if (choice.width > 1) drafted.add(choice.width, choice.draft_keys);
      int32_t accepted = 0;
      const double chance = device.text(step, sequences[choice.slot].chance);
      while (accepted < choice.width - 1 && uniform(random) < chance) ++accepted;
      if (fixed_width == 0) policy.survival().observe(choice.slot, choice.width - 1, accepted);
      grown[choice.slot] += 1 + accepted;
      tokens += 1 + accepted;
      run.width += step >= from ? choice.width : 0;
    }
    without = drafted.rows > 0 ? 0 : without + 1;
    const double slower = device.slower(step);
    const double verify_time =
        device.verify.of(verified) * device.truth(n, verified) * (without > 6 ? device.steady : 1.0) * slower;
    const double draft_time = drafted.rows > 0 ? device.draft.of(drafted) * device.draft_truth(drafted) * slower : 0.0;
    policy.costs().observe(verified, drafted, verify_time * device.noise(noise), draft_time * device.noise(noise));
    if (step < from) continue;
    run.tokens += tokens;
    run.time += verify_time + draft_time;
    run.probed_share += draft_time;
    spans += n;
  }
  run.width /= spans;
  run.probed_share /= run.time;
  run.hopeful = policy.hopeful();
  return run;
}

/// The best of all fixed widths, and plain decoding.
struct FixedWidths {
  double plain = 0, best = 0;
  int32_t best_width = 1;
};

/// What every fixed width gives on average where all sequences are alike and nothing changes.
inline FixedWidths expected_fixed(const SimulatedDevice& device, int32_t n, const SimulatedSequence& sequence) {
  FixedWidths all;
  for (int32_t width = 1; width <= device.max_width; ++width) {
    PassLoad verified, drafted;
    verified.add(n * width, sequence.context, n);
    if (width > 1) drafted.add(n * width, sequence.context, n);
    const double time = device.verify.of(verified) + (width > 1 ? device.draft.of(drafted) : 0.0);
    const double rate = n * (1 - std::pow(sequence.chance, width)) / (1 - sequence.chance) / time;
    if (width == 1) all.plain = rate;
    if (rate <= all.best) continue;
    all.best = rate;
    all.best_width = width;
  }
  return all;
}

/// The same of texts that differ or change: simulated.
inline FixedWidths simulate_fixed(const SimulatedDevice& device, const std::vector<SimulatedSequence>& sequences,
                                  int steps, int from) {
  FixedWidths all;
  for (const int32_t width : {1, 2, 3, 4, 6, 8, 12, 16}) {
    if (width > device.max_width) break;
    const double rate = simulate(device, sequences, steps, from, width).rate();
    if (width == 1) all.plain = rate;
    if (rate <= all.best) continue;
    all.best = rate;
    all.best_width = width;
  }
  return all;
}

}  // namespace ashlar::testing
