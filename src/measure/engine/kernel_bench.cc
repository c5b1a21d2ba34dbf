// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/kernel_bench.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "measure/engine/forward_bench.h"
#include "measure/engine/step_bench.h"

namespace ashlar {
namespace {

constexpr int32_t kMaxTokens = 64;  // of an answer whose steps are measured
constexpr int32_t kStepRows = 512;
constexpr int32_t kMinRuns = 5;
constexpr int32_t kWarmRuns = 2;

/// A pass and what was seen of it.
struct Measured {
  std::string name;
  std::function<double()> run;  ///< records, and says how many seconds of it count
  std::function<void()> before = {};
  std::vector<KernelPass> runs = {};
};

class Passes {
 public:
  Passes(const BenchSubject& subject, TimedOps& timed, const KernelOptions& options)
      : timed_(timed), options_(options) {
    const std::vector<int32_t> context = long_prompt(subject.prompts, options.context);
    plain_ = std::make_unique<StepBench>(*subject.ops, make_decoder(*subject.model, plain_spec(subject)), context,
                                         kMaxTokens, 1, kStepRows);
    if (!subject.drafted.drafter.empty()) {
      const int32_t width = make_decoder(*subject.model, subject.drafted)->max_width();
      cycle_ = std::make_unique<StepBench>(*subject.ops, make_decoder(*subject.model, whole_block(subject, width)),
                                           context, kMaxTokens, width, kStepRows);
    }
    const int32_t longest = std::max(options.context + options.verify_rows, options.prompt);
    forward_ = std::make_unique<ForwardBench>(*subject.model, long_prompt(subject.prompts, longest), options.context,
                                              subject.engine.prompt_rows(*subject.ops).chunk_alone);
    add(
        "plain step", [this] { plain_->step(); }, [this] { plain_->warm_up(); });
    add("verify of " + std::to_string(options.verify_rows) + " rows",
        [this] { forward_->verify(options_.verify_rows); });
    if (cycle_) add_draft_pass();
    add("prompt of " + std::to_string(options.prompt), [this] { forward_->prefill(options_.prompt); });
  }

  std::vector<KernelPass> run(const BenchProgress& progress) {
    const int64_t begin = now_ns();
    for (int32_t round = 0; round < options_.repeat + kWarmRuns; ++round) {
      const bool is_late = options_.seconds > 0 && static_cast<double>(now_ns() - begin) > options_.seconds * 1e9;
      if (is_late && round >= kMinRuns + kWarmRuns) break;
      for (Measured& pass : passes_) measure(pass, round >= kWarmRuns);
      if (progress) progress("ops", round + 1, options_.repeat + kWarmRuns);
    }
    std::vector<KernelPass> out;
    for (Measured& pass : passes_) {
      const auto middle = pass.runs.begin() + static_cast<std::ptrdiff_t>(pass.runs.size() / 2);
      std::ranges::nth_element(pass.runs, middle, {}, &KernelPass::seconds);
      out.push_back(std::move(*middle));
    }
    return out;
  }

 private:
  void add(std::string name, const std::function<void()>& pass, std::function<void()> before = {}) {
    const auto whole = [pass] {
      const int64_t begin = now_ns();
      pass();
      return static_cast<double>(now_ns() - begin) * 1e-9;
    };
    passes_.push_back({std::move(name), whole, std::move(before)});
  }

  // The first part of a cycle, as serving runs it: what is asked for before the drafts are there.
  void add_draft_pass() {
    const auto draft = [this] {
      cycle_->reset();
      cycle_->step();
      return static_cast<double>(cycle_->times().back().draft_ns) * 1e-9;
    };
    passes_.push_back({"draft pass", draft, [this] { cycle_->warm_up(); }});
  }

  void measure(Measured& pass, bool counts) {
    if (pass.before) pass.before();
    timed_.record();
    const int64_t begin = now_ns();
    const double seconds = pass.run();
    std::vector<OpCall> calls = timed_.take();
    if (!counts) return;
    const int64_t end = begin + static_cast<int64_t>(seconds * 1e9);
    std::erase_if(calls, [end](const OpCall& call) { return call.begin_ns >= end; });
    pass.runs.push_back({pass.name, seconds, by_op(calls)});
  }

  TimedOps& timed_;
  KernelOptions options_;
  std::unique_ptr<StepBench> plain_, cycle_;
  std::unique_ptr<ForwardBench> forward_;
  std::vector<Measured> passes_;
};

}  // namespace

double KernelPass::in_ops() const {
  double seconds = 0;
  for (const KernelRow& row : rows) seconds += row.seconds;
  return seconds;
}

std::vector<KernelRow> by_op(const std::vector<OpCall>& calls) {
  std::map<std::string, KernelRow> found;
  for (const OpCall& call : calls) {
    KernelRow& row = found[call.op];
    ++row.calls;
    row.seconds += call.seconds;
    row.read += call.read;
    row.written += call.written;
    row.products += call.products;
  }
  std::vector<KernelRow> rows;
  for (auto& [op, row] : found) {
    row.op = op;
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::greater<>(), &KernelRow::seconds);
  return rows;
}

KernelBench run_kernel_bench(const BenchSubject& subject, TimedOps& timed, const KernelOptions& options,
                             const BenchProgress& progress) {
  KernelBench bench;
  bench.options = options;
  if (subject.prompts.empty()) throw Error("bench", "there are no prompts to measure with");
  const int32_t longest = subject.model->max_positions();
  const int32_t needed = options.context + kMaxTokens + kMaxWidth;
  if (needed > longest) {
    throw Error("bench", "the context holds " + std::to_string(longest) + " tokens; " + std::to_string(needed) +
                             " are needed for --context " + std::to_string(options.context));
  }
  bench.options.prompt = std::min(options.prompt, longest);
  if (progress) progress("memory bandwidth", 0, 3);
  const int64_t beyond_caches = bandwidth_buffer_bytes(options.available_memory);
  bench.memory = measure_read_bandwidth(timed, beyond_caches, options.bandwidth_seconds);
  if (progress) progress("memory bandwidth", 1, 3);
  bench.copies = measure_copy_bandwidth(timed, beyond_caches, options.bandwidth_seconds);
  bench.products = measure_products(timed, options.bandwidth_seconds);
  if (progress) progress("memory bandwidth", 3, 3);
  bench.passes = Passes(subject, timed, bench.options).run(progress);
  return bench;
}

}  // namespace ashlar
