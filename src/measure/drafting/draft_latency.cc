// SPDX-License-Identifier: Apache-2.0
#include "measure/drafting/draft_latency.h"

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "decode/drafters.h"
#include "decode/propose/autoregressive.h"
#include "device/device_array.h"
#include "measure/engine/step_bench.h"
#include "measure/report/table.h"
#include "measure/statistics.h"

namespace ashlar {
namespace {

constexpr int32_t kMaxTokens = 64;  // of an answer whose steps are measured
constexpr int32_t kStepRows = 512;
constexpr int32_t kMinRounds = 5;

// Chains of at most as many rows as it can fill, and no more ways to draft than that.
DecoderSpec spec_of(const BenchSubject& subject, const std::filesystem::path& folder) {
  DecoderSpec spec = subject.drafted;
  spec.drafter = folder;
  spec.dflash.width = spec.dflash.branches = 0;
  const DrafterFacts facts = drafter_facts(folder, subject.model->config(), spec.dflash, 1);
  spec.method = facts.method;
  spec.dflash.width = drafts_one_by_one(facts.method) ? AutoregressiveOptions::kMaxWidth : facts.max_width;
  spec.ngram = NgramUse::kNever;
  return spec;
}

/// Steps of one drafter, or without one.
class Steps {
 public:
  struct Seen {
    std::vector<double> draft, context, step;
  };

  Steps(const BenchSubject& subject, const DecoderSpec& spec, const std::vector<int32_t>& prompt,
        const std::vector<int32_t>& blocks)
      : width_(std::max(1, spec.dflash.width)),
        bench_(*subject.ops, make_decoder(*subject.model, spec), prompt, kMaxTokens, width_, kStepRows),
        fence_(*subject.ops, 1) {
    for (const int32_t rows : blocks) {
      if (rows <= width_) blocks_.push_back(rows);
    }
    if (blocks_.empty()) blocks_.push_back(width_);
    seen_.resize(blocks_.size());
  }

  // After steps of their kind, as in decoding. A step is over when the device has nothing left to do.
  void run(bool records) {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      bench_.narrow(blocks_[i]);
      bench_.warm_up();
      fence_.download(1);
      const int64_t begin = now_ns();
      bench_.step();
      fence_.download(1);
      const int64_t all = now_ns() - begin;
      if (!records) continue;
      const StepTimes& times = bench_.times().back();
      const int64_t before = times.draft_ns + times.verify_ns + times.sample_ns;
      seen_[i].draft.push_back(static_cast<double>(times.draft_ns) * 1e-9);
      seen_[i].context.push_back(static_cast<double>(std::max<int64_t>(0, all - before)) * 1e-9);
      seen_[i].step.push_back(static_cast<double>(all) * 1e-9);
    }
  }

  const std::vector<int32_t>& blocks() const { return blocks_; }
  const Seen& seen(size_t i) const { return seen_[i]; }

 private:
  int32_t width_;
  StepBench bench_;
  DeviceArray<int32_t> fence_;  // nothing is in it: reading waits
  std::vector<int32_t> blocks_;
  std::vector<Seen> seen_;  // as blocks_
};

void check(const BenchSubject& subject, const DraftLatencyOptions& options) {
  if (subject.prompts.empty()) throw Error("bench", "there are no prompts to measure with");
  const int32_t longest = subject.model->max_positions();
  const int32_t needed = options.context + kMaxTokens + kMaxWidth;
  if (needed <= longest) return;
  throw Error("bench", "the context holds " + std::to_string(longest) + " tokens; " + std::to_string(needed) +
                           " are needed for --context " + std::to_string(options.context));
}

const DraftLatency::Block* find(const DraftLatency& drafter, int32_t rows) {
  const auto found = std::ranges::find(drafter.blocks, rows, &DraftLatency::Block::rows);
  return found == drafter.blocks.end() ? nullptr : &*found;
}

std::string ms_text(double seconds) { return three_digits(seconds * 1e3); }

}  // namespace

DraftLatencies run_draft_latency(const BenchSubject& subject, const std::vector<NamedDrafter>& drafters,
                                 const DraftLatencyOptions& options, const BenchProgress& progress) {
  check(subject, options);
  DraftLatencies out;
  out.options = options;
  const std::vector<int32_t> prompt = long_prompt(subject.prompts, options.context);
  std::vector<std::unique_ptr<Steps>> all;
  all.push_back(std::make_unique<Steps>(subject, DecoderSpec{}, prompt, std::vector<int32_t>{1}));
  for (const NamedDrafter& drafter : drafters) {
    all.push_back(std::make_unique<Steps>(subject, spec_of(subject, drafter.folder), prompt, options.blocks));
  }
  for (const std::unique_ptr<Steps>& steps : all) steps->run(false);
  const int64_t begin = now_ns();
  for (int32_t round = 0; round < options.repeat; ++round) {
    const bool is_late = options.seconds > 0 && static_cast<double>(now_ns() - begin) > options.seconds * 1e9;
    if (is_late && round >= kMinRounds) break;
    for (size_t i = 0; i < all.size(); ++i) all[(i + static_cast<size_t>(round)) % all.size()]->run(true);
    out.rounds = round + 1;
    if (progress) progress("drafting", out.rounds, options.repeat);
  }
  out.plain = median(all.front()->seen(0).step);
  for (size_t d = 0; d < drafters.size(); ++d) {
    DraftLatency& drafter = out.drafters.emplace_back();
    drafter.name = drafters[d].name;
    const Steps& steps = *all[d + 1];
    for (size_t i = 0; i < steps.blocks().size(); ++i) {
      drafter.blocks.push_back({steps.blocks()[i], median(steps.seen(i).draft), median(steps.seen(i).context)});
    }
  }
  return out;
}

std::string draft_latency_text(const DraftLatencies& latencies) {
  std::vector<std::string> header = {"n"};
  for (const int32_t rows : latencies.options.blocks) header.push_back(std::to_string(rows - 1));
  header.emplace_back("context");
  TextTable table(header);
  for (const DraftLatency& drafter : latencies.drafters) {
    std::vector<std::string> ms = {drafter.name + ", ms"}, steps = {drafter.name + ", plain steps"};
    for (const int32_t rows : latencies.options.blocks) {
      const DraftLatency::Block* const block = find(drafter, rows);
      ms.push_back(block == nullptr ? "-" : ms_text(block->draft));
      steps.push_back(block == nullptr ? "-" : fixed(block->draft / latencies.plain, 3));
    }
    const double context = drafter.blocks.back().context;
    ms.push_back(ms_text(context));
    steps.push_back(fixed(context / latencies.plain, 3));
    table.add(std::move(ms));
    table.add(std::move(steps));
  }
  return "Drafting chains of n tokens, one sequence, greedy, after " + std::to_string(latencies.options.context) +
         " tokens; medians of " + std::to_string(latencies.rounds) + " rounds. A plain step takes " +
         ms_text(latencies.plain) + " ms.\n" + table.render() +
         "  context: what the drafter then keeps of the rows that stayed, after a verify of the widest block\n";
}

Json draft_latency_json(const DraftLatencies& latencies) {
  Json drafters = Json::array();
  for (const DraftLatency& drafter : latencies.drafters) {
    Json blocks = Json::array();
    for (const DraftLatency::Block& block : drafter.blocks) {
      blocks.push_back({{"rows", block.rows},
                        {"drafts", block.rows - 1},
                        {"draft_ms", block.draft * 1e3},
                        {"context_ms", block.context * 1e3},
                        {"plain_steps", block.draft / latencies.plain}});
    }
    drafters.push_back({{"name", drafter.name}, {"blocks", blocks}});
  }
  return {{"options", {{"repeat", latencies.options.repeat}, {"context", latencies.options.context}}},
          {"rounds", latencies.rounds},
          {"plain_ms", latencies.plain * 1e3},
          {"drafting", drafters}};
}

}  // namespace ashlar
