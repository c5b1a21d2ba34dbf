#pragma once
// A grammar over text as the limit on the tokens of one request.

#include <memory>
#include <string>

#include "engine/request.h"
#include "text/grammar/matcher.h"
#include "text/tokenizer.h"

namespace ashlar::server {

class GrammarConstraint final : public TokenConstraint {
 public:
  /// The matcher stands at the beginning of the answer. `tokenizer`, which outlives this, spells what must come next,
  /// so that it can be drafted; null: nothing is drafted.
  explicit GrammarConstraint(grammar::GrammarMatcher matcher, const Tokenizer* tokenizer = nullptr);

  bool mask(std::span<uint32_t> allowed) override;
  void advance(int32_t token) override;
  int32_t forced(std::span<int32_t> out) override;
  std::string problem() const override { return matcher_.problem(); }

  /// Where the answer stands. Only while no engine works on the request.
  const grammar::GrammarMatcher& matcher() const { return matcher_; }

 private:
  grammar::GrammarMatcher matcher_;
  const Tokenizer* tokenizer_;
  bool broken_ = false;  // a token came that the grammar does not allow
};

}  // namespace ashlar::server
