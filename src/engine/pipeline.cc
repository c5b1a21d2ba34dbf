// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline.h"

#include <exception>

#include "base/check.h"
#include "base/error.h"

namespace ashlar {
namespace {

uint64_t turns(uint32_t submitted, uint32_t begun) { return uint64_t{submitted} << 32 | begun; }
uint32_t submitted(uint64_t turns) { return static_cast<uint32_t>(turns >> 32); }
uint32_t begun(uint64_t turns) { return static_cast<uint32_t>(turns); }

}  // namespace

Pipeline::Pipeline(Decoder& decoder, SlotTable& slots, int32_t depth, const StepLimits& limits)
    : decoder_(decoder), slots_(slots), depth_(depth) {
  ASHLAR_CHECK(depth >= 1 && depth <= kMaxDepth);
  for (Step& step : steps_) {
    step.plan.spans.reserve(limits.max_spans);
    step.members.reserve(limits.max_spans);
    step.result.reserve(limits.max_spans, limits.max_rows, decoder.hidden_row().bytes());
  }
  if (depth_ > 1) thread_ = std::thread([this] { serve(); });
}

Pipeline::~Pipeline() {
  ASHLAR_CHECK_EQ(inflight(), 0);
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  turns_.fetch_add(turns(1, 0), std::memory_order_release);
  turns_.notify_one();
  thread_.join();
}

void Pipeline::launch() {
  ASHLAR_CHECK(!full());
  if (depth_ == 1) {
    run(next());
  } else {
    turns_.fetch_add(turns(1, 0), std::memory_order_release);
    turns_.notify_one();
  }
  ++launched_;
}

bool Pipeline::reclaim() {
  uint64_t now = turns_.load(std::memory_order_acquire);
  while (submitted(now) != begun(now)) {
    if (!turns_.compare_exchange_weak(now, turns(submitted(now) - 1, begun(now)), std::memory_order_acq_rel)) continue;
    --launched_;
    return true;
  }
  return false;
}

// Asleep: the device's workers need the cores more than this thread needs the microseconds, which overlap with the next
// step anyway.
bool Pipeline::await(uint32_t seen) {
  ASHLAR_CHECK_LT(0, inflight());
  while (depth_ > 1 && finished_.load(std::memory_order_acquire) <= collected_) {
    if (news() != seen) return false;
    news_->wait(seen);
  }
  return true;
}

Step& Pipeline::collect() {
  while (!await(news())) {
  }
  return steps_[collected_++ % depth_];
}

void Pipeline::run(Step& step) {
  try {
    if (!lost_.empty()) throw DeviceLost("device", lost_);
    decoder_.run(step.plan, slots_, step.result);
    return;
  } catch (const DeviceLost& error) {
    if (lost_.empty()) lost_ = copy_or_less(error.what());
    step.error = copy_or_less(lost_);
    step.device_lost = true;
  } catch (const std::exception& error) {
    step.error = copy_or_less(message_of(error));  // std::bad_alloc above all
  }
  // A step after this one may be planned, and the state of its sequences is unknown.
  for (const Span& span : step.plan.spans) slots_[span.slot].done = true;
}

bool Pipeline::begin() {
  for (uint64_t now = turns_.load(std::memory_order_acquire);;) {
    if (submitted(now) == begun(now)) {
      turns_.wait(now, std::memory_order_acquire);
      now = turns_.load(std::memory_order_acquire);
    } else if (stop_.load(std::memory_order_acquire)) {
      return false;
    } else if (turns_.compare_exchange_weak(now, turns(submitted(now), begun(now) + 1), std::memory_order_acq_rel)) {
      return true;
    }
  }
}

void Pipeline::serve() {
  for (uint64_t done = 0; begin();) {
    run(steps_[done % depth_]);
    finished_.store(++done, std::memory_order_release);
    nudge();
  }
}

}  // namespace ashlar
