// SPDX-License-Identifier: Apache-2.0
#include "generate/grammar_constraint.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace ashlar {
namespace {

constexpr size_t kForcedBytes = 256;
constexpr uint64_t kInlineWork = uint64_t{1} << 13;  // of StateGraph::work(): a quarter of a millisecond
constexpr uint64_t kSlice = uint64_t{1} << 15;

}  // namespace

// Owned by the constraint's user or, while a mask is being found, by the workers.
class GrammarConstraint::Search final : public SlicedTask {
 public:
  enum class Stage : uint8_t {
    kNew,    ///< prepare() has something to do
    kFound,  ///< the mask is there
    kAway,   ///< the workers have it
  };
  explicit Search(grammar::GrammarMatcher at) : matcher(std::move(at)) {}

  bool run_slice() noexcept override {
    if (unwanted) return true;
    try {
      return matcher.prepare(kSlice);
    } catch (const std::exception&) {
      failed = true;
      return true;
    }
  }
  void on_done() noexcept override {
    std::shared_ptr<WakeSignal> to_raise;
    {
      const std::lock_guard lock(mutex);
      to_raise = signal;
    }
    stage = Stage::kFound;
    stage.notify_all();
    if (to_raise) to_raise->raise();
  }

  grammar::GrammarMatcher matcher;
  bool failed = false;  // memory ran out on the workers' side
  std::atomic<Stage> stage = Stage::kNew;
  std::atomic<bool> unwanted = false;
  std::mutex mutex;  // guards signal
  std::shared_ptr<WakeSignal> signal;
};

GrammarConstraint::GrammarConstraint(grammar::GrammarMatcher matcher, const Tokenizer* tokenizer,
                                     std::shared_ptr<MaskWorkers> workers)
    : search_(std::make_shared<Search>(std::move(matcher))), tokenizer_(tokenizer), workers_(std::move(workers)) {}

GrammarConstraint::~GrammarConstraint() { search_->unwanted = true; }

bool GrammarConstraint::prepare() {
  switch (search_->stage.load()) {
    case Search::Stage::kAway:
      return false;
    case Search::Stage::kFound:
      return true;
    case Search::Stage::kNew:
      break;
  }
  while (workers_ == nullptr && !search_->matcher.prepare(kSlice)) {
  }
  const bool found = workers_ == nullptr || search_->matcher.prepare(kInlineWork, false);
  search_->stage = found ? Search::Stage::kFound : Search::Stage::kAway;
  if (found) return true;
  workers_->post(search_, search_->matcher.grammar());
  return false;
}

bool GrammarConstraint::waits() const { return search_->stage == Search::Stage::kAway; }

void GrammarConstraint::wake_with(std::shared_ptr<WakeSignal> signal) {
  const std::lock_guard lock(search_->mutex);
  search_->signal = std::move(signal);
}

bool GrammarConstraint::mask(std::span<uint32_t> allowed) {
  while (!prepare()) search_->stage.wait(Search::Stage::kAway);
  if (search_->failed) {
    std::fill(allowed.begin(), allowed.end(), 0U);  // ends the request with an error
    return true;
  }
  if (search_->matcher.anything_goes()) return false;
  search_->matcher.allowed(allowed);
  return true;
}

// A token that the mask allowed is accepted. Only one that ends the thinking and goes on can break the grammar.
void GrammarConstraint::advance(int32_t token) {
  search_->matcher.accept_later(token);
  search_->stage = Search::Stage::kNew;
}

std::string GrammarConstraint::problem() const {
  return search_->failed ? "memory ran out while the constraint was followed" : search_->matcher.problem();
}

const grammar::GrammarMatcher& GrammarConstraint::matcher() const { return search_->matcher; }

int32_t GrammarConstraint::forced(std::span<int32_t> out) {
  if (tokenizer_ == nullptr || out.empty()) return 0;
  const std::string bytes = search_->matcher.forced(kForcedBytes);
  if (bytes.size() < 2) return 0;
  const std::vector<int32_t> ids = tokenizer_->encode(bytes, {.parse_special = false});
  // What follows the forced bytes may become one token with the last of them.
  const size_t n = ids.empty() ? 0 : std::min(ids.size() - 1, out.size());
  std::copy_n(ids.begin(), n, out.begin());
  return static_cast<int32_t>(n);
}

}  // namespace ashlar
