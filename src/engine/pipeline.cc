#include "engine/pipeline.h"

#include <exception>

#include "base/check.h"
#include "base/error.h"

namespace ashlar {
namespace {

// Waits until `value` leaves `seen`, asleep: the device's workers need the cores more than this thread needs the
// microseconds, which overlap with the next step anyway.
uint64_t await_change(const std::atomic<uint64_t>& value, uint64_t seen) {
  value.wait(seen, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

Pipeline::Pipeline(Decoder& decoder, SlotTable& slots, int32_t depth, int32_t max_spans)
    : decoder_(decoder), slots_(slots), depth_(depth) {
  ASHLAR_CHECK(depth >= 1 && depth <= kMaxDepth);
  for (Step& step : steps_) {
    step.plan.spans.reserve(max_spans);
    step.members.reserve(max_spans);
    step.result.reserve(max_spans);
  }
  if (depth_ > 1) thread_ = std::thread([this] { serve(); });
}

Pipeline::~Pipeline() {
  ASHLAR_CHECK_EQ(inflight(), 0);
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  submitted_.fetch_add(1, std::memory_order_release);
  submitted_.notify_one();
  thread_.join();
}

void Pipeline::launch() {
  ASHLAR_CHECK(!full());
  if (depth_ == 1) {
    run(next());
  } else {
    submitted_.store(launched_ + 1, std::memory_order_release);
    submitted_.notify_one();
  }
  ++launched_;
}

Step& Pipeline::collect() {
  ASHLAR_CHECK_LT(0, inflight());
  if (depth_ > 1) {
    for (uint64_t done = finished_.load(std::memory_order_acquire); done <= collected_;)
      done = await_change(finished_, done);
  }
  return steps_[collected_++ % depth_];
}

void Pipeline::run(Step& step) {
  try {
    decoder_.launch(step.plan, slots_, step.result);
  } catch (const std::exception& error) {
    step.error = copy_or_less(told_by(error));  // std::bad_alloc above all
    // A step behind this one may be planned, and its sequences are in a state that nobody can tell.
    for (const Span& span : step.plan.spans) slots_[span.slot].done = true;
  }
}

void Pipeline::serve() {
  for (uint64_t done = 0;;) {
    if (submitted_.load(std::memory_order_acquire) == done) await_change(submitted_, done);
    if (stop_.load(std::memory_order_acquire)) return;
    run(steps_[done % depth_]);
    finished_.store(++done, std::memory_order_release);
    finished_.notify_one();
  }
}

}  // namespace ashlar
