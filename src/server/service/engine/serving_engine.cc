// SPDX-License-Identifier: Apache-2.0
#include "server/service/engine/serving_engine.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar::server {
namespace {

// All that a new engine begins at 0 with, and that who reads it expects never to shrink.
void add_totals(EngineCounters& sum, const EngineCounters& more) {
  sum.steps += more.steps;
  sum.prefill_tokens += more.prefill_tokens;
  sum.cached_tokens += more.cached_tokens;
  sum.generated_tokens += more.generated_tokens;
  sum.verify_spans += more.verify_spans;
  sum.decided += more.decided;
  sum.blocks += more.blocks;
  sum.drafted += more.drafted;
  sum.accepted += more.accepted;
  sum.ngram_accepted += more.ngram_accepted;
  sum.preemptions += more.preemptions;
  sum.requests_finished += more.requests_finished;
  sum.requests_cancelled += more.requests_cancelled;
  sum.requests_failed += more.requests_failed;
  sum.draft_ns += more.draft_ns;
  sum.verify_ns += more.verify_ns;
  sum.sample_ns += more.sample_ns;
  sum.context_ns += more.context_ns;
  sum.host_ns += more.host_ns;
  sum.device_wait_ns += more.device_wait_ns;
  sum.last_progress_ns = std::max(sum.last_progress_ns, more.last_progress_ns);
}

}  // namespace

Engine& ServingEngine::get() const {
  const std::lock_guard lock(mutex_);
  ASHLAR_CHECK(engine_ != nullptr);
  return *engine_;
}

EngineCounters ServingEngine::counters() const {
  const std::lock_guard lock(mutex_);
  EngineCounters counters = engine_ != nullptr ? engine_->counters() : EngineCounters();
  add_totals(counters, before_);
  return counters;
}

ServingEngine::Facts ServingEngine::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

std::string ServingEngine::lost() const {
  const std::lock_guard lock(mutex_);
  return engine_ != nullptr && lost_.empty() ? engine_->lost() : lost_;
}

void ServingEngine::close() {
  get().wait_idle();  // what the last request took is counted after its end
  const std::lock_guard lock(mutex_);
  add_totals(before_, engine_->counters());
  lost_ = engine_->lost();
  engine_ = nullptr;
}

void ServingEngine::open(Engine& engine, std::string description) noexcept {
  const std::lock_guard lock(mutex_);
  engine_ = &engine;
  facts_.description = std::move(description);
  facts_.max_width = engine.max_width();
  facts_.block_size = engine.block_size();
  try {
    facts_.decoder_name = engine.decoder_name();
  } catch (const std::exception&) {  // no memory for a longer name: the one before stays
  }
}

void ServingEngine::lose(std::string why) noexcept {
  const std::lock_guard lock(mutex_);
  lost_ = std::move(why);
}

}  // namespace ashlar::server
