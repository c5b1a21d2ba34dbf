// SPDX-License-Identifier: Apache-2.0
// host_step SEQUENCES CONTEXT STEPS [same]: what a step costs the engine's thread, planning and collecting, without a
// model: SEQUENCES of CONTEXT tokens each (same: of one text, so that all but one publish duplicates) decode STEPS
// tokens. Prints percentiles in microseconds and the pages that were looked up in the prefix index.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/clock.h"
#include "device/device.h"
#include "scenario/scheduler_loop.h"

namespace {

using namespace ashlar;

/// Appends one token a step and computes nothing.
class NoModel final : public Decoder {
 public:
  explicit NoModel(int32_t longest) : longest_(longest) {}
  std::string name() const override { return "none"; }
  StepShape shape(int32_t) const override { return {}; }
  int32_t max_width() const override { return 1; }
  int32_t vocab() const override { return 1 << 20; }
  int32_t max_positions() const override { return longest_; }
  void register_state(KvLayout& layout, const StepLimits&) override { layout.add_paged("none", 1); }
  void start(const StepLimits&, const KvMemory&) override {}
  void admit(int32_t, Slot&, std::span<const int32_t>) override {}
  void enqueue(const StepPlan& plan, SlotTable& slots, StepResult& result) override {
    for (size_t i = 0; i < plan.spans.size(); ++i) {
      const Span& span = plan.spans[i];
      Slot& slot = slots[span.slot];
      SpanResult& out = result.spans[i];
      out = {};
      if (slot.done) continue;
      out.active = true;
      slot.length = out.computed = span.prompt != nullptr ? span.start + span.n_rows : slot.length + 1;
      if (!span.samples) continue;
      out.tokens[out.n_tokens++] = slot.length % 1000;
      slot.done = slot.length + 1 >= slot.limit;
      if (slot.done) out.end = SpanEnd::kLength;
    }
  }

 private:
  int32_t longest_;
};

class Ignores final : public EventSink {
 public:
  void on_tokens(const TokensEvent&) override {}
  void on_end(EndEvent) noexcept override {}
};

void print(const char* what, std::vector<double>& us) {
  std::sort(us.begin(), us.end());
  const auto at = [&](double q) { return us[static_cast<size_t>(q * static_cast<double>(us.size() - 1))]; };
  std::printf("%-8s p10 %9.1f   median %9.1f   p90 %9.1f   highest %9.1f us\n", what, at(0.1), at(0.5), at(0.9), at(1));
}

int run(int32_t sequences, int32_t context, int32_t steps, bool same) {
  const auto ops = make_device("ref", {});
  NoModel decoder(context + steps + 2);
  EngineOptions options;
  options.max_sequences = sequences;
  options.max_step_rows = options.prefill_chunk = 1 << 16;
  options.kv_pages = sequences * ((context + steps + 2) / kPageTokens + 1);
  testing::SchedulerLoop loop(*ops, decoder, options);
  for (int32_t s = 0; s < sequences; ++s) {
    Request request;
    for (int32_t i = 0; i < context; ++i) request.prompt.push_back(same ? i : i + s * 31);
    request.max_tokens = steps + 1;
    request.sink = std::make_shared<Ignores>();
    loop.add(std::move(request));
  }
  std::vector<double> plan_us, collect_us, total_us;
  const PageCache::Counters& counters = loop.scheduler().cache().counters();
  uint64_t lookups = 0;
  for (;;) {
    const int64_t begin = now_ns();
    if (!loop.plan()) break;
    const int64_t planned = now_ns();
    loop.launch();
    const int64_t launched = now_ns();
    const bool decodes = loop.last_step().plan.n_rows == sequences;
    const uint64_t before = counters.lookups;
    loop.collect();
    const int64_t collected = now_ns();
    if (!decodes) continue;  // some sequences read their prompts still, or have ended
    lookups += counters.lookups - before;
    plan_us.push_back(static_cast<double>(planned - begin) * 1e-3);
    collect_us.push_back(static_cast<double>(collected - launched) * 1e-3);
    total_us.push_back(plan_us.back() + collect_us.back());
  }
  print("plan", plan_us);
  print("collect", collect_us);
  print("both", total_us);
  std::printf("%.2f pages looked up a step\n", static_cast<double>(lookups) / static_cast<double>(total_us.size()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: host_step SEQUENCES CONTEXT STEPS [same]\n");
    return 2;
  }
  return run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]),
             argc > 4 && std::string_view(argv[4]) == "same");
}
