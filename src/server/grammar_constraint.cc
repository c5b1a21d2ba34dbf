#include "server/grammar_constraint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::server {
namespace {

constexpr size_t kForcedBytes = 256;

}  // namespace

GrammarConstraint::GrammarConstraint(grammar::GrammarMatcher matcher, const Tokenizer* tokenizer)
    : matcher_(std::move(matcher)), tokenizer_(tokenizer) {}

bool GrammarConstraint::mask(std::span<uint32_t> allowed) {
  if (broken_) {
    std::fill(allowed.begin(), allowed.end(), 0U);  // ends the request with an error
    return true;
  }
  if (matcher_.anything_goes()) return false;
  matcher_.allowed(allowed);
  return true;
}

// A token that the mask allowed is accepted. Only one that ends the thinking and goes on can break the grammar.
void GrammarConstraint::advance(int32_t token) { broken_ = !matcher_.accept(token) || broken_; }

int32_t GrammarConstraint::forced(std::span<int32_t> out) {
  if (tokenizer_ == nullptr || broken_ || out.empty()) return 0;
  const std::string bytes = matcher_.forced(kForcedBytes);
  if (bytes.size() < 2) return 0;
  const std::vector<int32_t> ids = tokenizer_->encode(bytes, {.parse_special = false});
  // What follows the forced bytes may become one token with the last of them.
  const size_t n = ids.empty() ? 0 : std::min(ids.size() - 1, out.size());
  std::copy_n(ids.begin(), n, out.begin());
  return static_cast<int32_t>(n);
}

}  // namespace ashlar::server
