// SPDX-License-Identifier: Apache-2.0
#pragma once
// A grammar over text as the limit on the tokens of one request.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "engine/request.h"
#include "generate/mask_workers.h"
#include "text/grammar/matcher.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {

class GrammarConstraint final : public TokenConstraint {
 public:
  /// The matcher stands at the beginning of the answer. `tokenizer`, which outlives this, spells what must come next,
  /// so that it can be drafted; null: nothing is drafted. `workers` find the masks that take long; null: the asking
  /// thread finds them and is held up.
  explicit GrammarConstraint(grammar::GrammarMatcher matcher, const Tokenizer* tokenizer = nullptr,
                             std::shared_ptr<MaskWorkers> workers = nullptr);
  /// The work on a mask ends with the slice that is running.
  ~GrammarConstraint() override;
  GrammarConstraint(const GrammarConstraint&) = delete;
  GrammarConstraint& operator=(const GrammarConstraint&) = delete;

  bool prepare() override;
  bool waits() const override;
  void wake_with(std::shared_ptr<WakeSignal> signal) override;
  bool mask(std::span<uint32_t> allowed) override;
  void advance(int32_t token) override;
  int32_t forced(std::span<int32_t> out) override;
  std::string problem() const override;

  /// Where the answer stands. Only while no engine works on the request.
  const grammar::GrammarMatcher& matcher() const;

 private:
  class Search;
  const std::shared_ptr<Search> search_;  // the workers' too
  const Tokenizer* tokenizer_;
  const std::shared_ptr<MaskWorkers> workers_;
};

}  // namespace ashlar
