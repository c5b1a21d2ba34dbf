// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ashlar::grammar {
namespace {

constexpr Expr kUndefined = UINT32_MAX;
constexpr int32_t kDeepest = 2000;  // expressions inside each other: what compile() has stack for

[[noreturn]] void too_many(const char* what, int64_t limit) {
  throw LimitExceeded("grammar", std::string("it needs more than ") + std::to_string(limit) + " " + what +
                                     "; make it smaller or its repetition counts lower");
}

ByteSet byte_range(uint8_t low, uint8_t high) {
  ByteSet set;
  for (int32_t byte = low; byte <= high; ++byte) set.set(byte);
  return set;
}

}  // namespace

Builder::Builder(const Limits& limits) : limits_(limits) { emit(Grammar::Kind::kReturn, 0, 0); }

Builder::Builder(Builder* payer) : Builder(payer->limits_) { payer_ = payer; }

void Builder::step(int64_t n) {
  if (payer_ != nullptr) return payer_->step(n);
  constexpr int64_t kAsked = 4096;
  const int64_t before = std::exchange(steps_, steps_ + n);
  if (steps_ > limits_.steps) too_many("steps to compile", limits_.steps);
  if (limits_.unwanted && before / kAsked != steps_ / kAsked && limits_.unwanted()) {
    throw LimitExceeded("grammar", "it is not waited for any more");
  }
}

void Builder::check_input(size_t bytes) const {
  if (bytes <= limits_.input_bytes) return;
  throw Error("grammar",
              "it has " + std::to_string(bytes) + " bytes; the limit is " + std::to_string(limits_.input_bytes));
}

void Builder::check_nesting(int32_t depth, std::string_view what) const {
  if (depth <= limits_.nesting) return;
  throw Error("grammar", std::string(what) + ": nested deeper than " + std::to_string(limits_.nesting) + " levels");
}

Expr Builder::add(Node node) {
  step();
  if (node.depth > kDeepest) too_many("expressions inside each other", kDeepest);
  exprs_.push_back(node);
  return static_cast<Expr>(exprs_.size() - 1);
}

int32_t Builder::depth_around(std::span<const Expr> parts) const {
  int32_t deepest = 0;
  for (const Expr part : parts) deepest = std::max(deepest, exprs_[part].depth);
  return deepest + 1;
}

Expr Builder::add_list(Kind kind, const std::vector<Expr>& parts) {
  if (parts.size() == 1) return parts[0];
  step(static_cast<int64_t>(parts.size()));
  const auto first = static_cast<uint32_t>(children_.size());
  children_.insert(children_.end(), parts.begin(), parts.end());
  return add(
      {.kind = kind, .first = first, .count = static_cast<uint32_t>(parts.size()), .depth = depth_around(parts)});
}

uint32_t Builder::class_of(const ByteSet& set) {
  const auto [at, fresh] = class_ids_.emplace(set, static_cast<uint32_t>(out_.classes.size()));
  if (fresh) out_.classes.push_back(set);
  return at->second;
}

Expr Builder::bytes(const ByteSet& set) { return add({Kind::kBytes, class_of(set)}); }

Expr Builder::literal(std::string_view text) {
  const auto first = static_cast<uint32_t>(text_.size());
  text_ += text;
  step(static_cast<int64_t>(text.size()));
  return add({Kind::kLiteral, first, static_cast<uint32_t>(text.size())});
}

Expr Builder::sequence(std::vector<Expr> parts) { return add_list(Kind::kSequence, parts); }

Expr Builder::alternatives(std::vector<Expr> parts) {
  return parts.empty() ? never() : add_list(Kind::kAlternatives, parts);
}

Expr Builder::repeat(Expr part, int64_t min, int64_t max) {
  const int64_t most = std::max(min, max);
  if (most > limits_.repeat) {
    throw Error("grammar",
                "a repetition of " + std::to_string(most) + " times; the limit is " + std::to_string(limits_.repeat));
  }
  if (max >= 0 && max < min) return never();
  const Kind kind = exprs_[part].kind;
  if (most > 1 && kind != Kind::kBytes && kind != Kind::kCall) part = rule({}, part);
  return add({.kind = Kind::kRepeat,
              .first = part,
              .min = static_cast<int32_t>(min),
              .max = static_cast<int32_t>(max),
              .depth = depth_around({&part, 1})});
}

Expr Builder::strings(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts.empty() ? never() : shared_tree(texts, 0);
}

// Sorted, different texts that agree in their first `from` bytes; what follows those.
Expr Builder::shared_tree(std::span<const std::string> texts, size_t from) {
  const std::string& low = texts.front();
  const std::string& high = texts.back();
  size_t same = from;
  while (same < low.size() && same < high.size() && low[same] == high[same]) ++same;
  const Expr prefix = literal(std::string_view(low).substr(from, same - from));
  if (texts.size() == 1) return prefix;
  std::vector<Expr> ways;
  size_t at = 0;
  if (low.size() == same) {
    ways.push_back(empty());
    at = 1;
  }
  while (at < texts.size()) {
    size_t end = at + 1;
    while (end < texts.size() && texts[end][same] == texts[at][same]) ++end;
    ways.push_back(shared_tree(texts.subspan(at, end - at), same));
    at = end;
  }
  return sequence({prefix, alternatives(std::move(ways))});
}

Expr Builder::chars(const CodePointSet& set) {
  step(static_cast<int64_t>(set.ranges().size()));
  const bool ascii = set.empty() || set.ranges().back().second < 0x80;
  if (ascii) {
    ByteSet single;
    for (const auto& [first, last] : set.ranges())
      single |= byte_range(static_cast<uint8_t>(first), static_cast<uint8_t>(last));
    return bytes(single);
  }
  const auto known = char_rules_.find(set);
  if (known != char_rules_.end()) return call(known->second);
  const Rule made = declare({});
  define(made, utf8_tree(utf8_ranges(set), 0));
  char_rules_.emplace(set, made);
  return call(made);
}

// Sequences that agree before byte `at`, in order. What they share is read once, so that a set of many characters is no
// more ambiguous than one of a few.
Expr Builder::utf8_tree(std::span<const ByteRanges> sequences, int32_t at) {
  ByteSet last;
  std::vector<Expr> ways;
  for (size_t i = 0; i < sequences.size();) {
    const ByteRanges& first = sequences[i];
    size_t end = i + 1;
    if (first.n == at + 1) {
      last |= byte_range(first.low[at], first.high[at]);
    } else {
      while (end < sequences.size() && sequences[end].n == first.n && sequences[end].low[at] == first.low[at] &&
             sequences[end].high[at] == first.high[at]) {
        ++end;
      }
      ways.push_back(sequence(
          {bytes(byte_range(first.low[at], first.high[at])), utf8_tree(sequences.subspan(i, end - i), at + 1)}));
    }
    i = end;
  }
  if (last.any()) ways.push_back(bytes(last));
  return alternatives(std::move(ways));
}

Rule Builder::declare(std::string name) {
  if (static_cast<int32_t>(bodies_.size()) >= limits_.rules) too_many("rules", limits_.rules);
  bodies_.push_back(kUndefined);
  out_.rule_names.push_back(std::move(name));
  return static_cast<Rule>(bodies_.size() - 1);
}

Expr Builder::call(Rule rule) { return add({Kind::kCall, rule}); }

Expr Builder::rule(std::string name, Expr body) {
  const Rule made = declare(std::move(name));
  define(made, body);
  return call(made);
}

uint32_t Builder::emit(Grammar::Kind kind, uint32_t a, uint32_t b) {
  if (static_cast<int32_t>(out_.nodes.size()) >= limits_.nodes) too_many("states", limits_.nodes);
  out_.nodes.push_back({kind, a, b});
  return static_cast<uint32_t>(out_.nodes.size() - 1);
}

// From the end to the beginning: `next` is where the expression leads.
uint32_t Builder::compile(Expr expr, uint32_t next) {
  const Node node = exprs_[expr];
  switch (node.kind) {
    case Kind::kBytes:
      return emit(Grammar::Kind::kBytes, node.first, next);
    case Kind::kLiteral:
      for (uint32_t i = node.count; i-- > 0;) {
        ByteSet set;
        set.set(static_cast<unsigned char>(text_[node.first + i]));
        next = emit(Grammar::Kind::kBytes, class_of(set), next);
      }
      return next;
    case Kind::kSequence:
      for (uint32_t i = node.count; i-- > 0;) next = compile(children_[node.first + i], next);
      return next;
    case Kind::kAlternatives:
      return compile_alternatives(node, next);
    case Kind::kRepeat:
      return compile_repeat(node, next);
    case Kind::kCall:
      return emit(Grammar::Kind::kCall, node.first, next);
  }
  return next;
}

uint32_t Builder::compile_alternatives(const Node& node, uint32_t next) {
  std::vector<uint32_t> ways;
  for (uint32_t i = 0; i < node.count; ++i) ways.push_back(compile(children_[node.first + i], next));
  const auto first = static_cast<uint32_t>(out_.alternatives.size());
  out_.alternatives.insert(out_.alternatives.end(), ways.begin(), ways.end());
  return emit(Grammar::Kind::kSplit, first, node.count);
}

uint32_t Builder::compile_repeat(const Node& node, uint32_t next) {
  const auto split = [this](uint32_t first_way, uint32_t second_way) {
    const auto first = static_cast<uint32_t>(out_.alternatives.size());
    out_.alternatives.insert(out_.alternatives.end(), {first_way, second_way});
    return emit(Grammar::Kind::kSplit, first, 2);
  };
  uint32_t at = next;
  if (node.max < 0) {
    at = split(next, next);
    const uint32_t slot = out_.nodes[at].a;
    const uint32_t body = compile(node.first, at);
    out_.alternatives[slot] = body;
  } else {
    // Every copy may leave to the end at once, so that a state holds one place of the chain and not all of them.
    for (int32_t i = node.min; i < node.max; ++i) at = split(compile(node.first, at), next);
  }
  for (int32_t i = 0; i < node.min; ++i) at = compile(node.first, at);
  return at;
}

Grammar Builder::finish(Expr root) {
  out_.rule_starts.assign(bodies_.size(), 0);
  for (Rule rule = 0; rule < bodies_.size(); ++rule) {
    ASHLAR_CHECK_NE(bodies_[rule], kUndefined);
    out_.rule_starts[rule] = compile(bodies_[rule], Grammar::kReturnNode);
  }
  out_.start = compile(root, Grammar::kReturnNode);
  if (payer_ != nullptr) step(static_cast<int64_t>(out_.nodes.size() / 4));
  return Grammar(std::move(out_));
}

}  // namespace ashlar::grammar
