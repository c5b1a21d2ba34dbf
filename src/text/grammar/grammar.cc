// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/error.h"

namespace ashlar::grammar {
namespace {

constexpr uint16_t kNoWay = Grammar::kMaxFrames + 1;

}  // namespace

// For each node, those that lead to it without a byte in between or with one.
struct Grammar::Reverse {
  std::vector<uint32_t> first, from;
  std::span<const uint32_t> into(uint32_t node) const {
    return std::span(from).subspan(first[node], first[node + 1] - first[node]);
  }

  explicit Reverse(const Parts& parts) : first(parts.nodes.size() + 1) {
    each(parts, [this](uint32_t to, uint32_t) { ++first[to + 1]; });
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    from.resize(first.back());
    std::vector<uint32_t> at = first;
    each(parts, [&](uint32_t to, uint32_t source) { from[at[to]++] = source; });
  }

 private:
  template <class Visit>
  static void each(const Parts& parts, Visit visit) {
    for (uint32_t id = 0; id < parts.nodes.size(); ++id) {
      const Node& node = parts.nodes[id];
      if (node.kind == Kind::kSplit) {
        for (uint32_t i = 0; i < node.b; ++i) visit(parts.alternatives[node.a + i], id);
      } else if (node.kind != Kind::kReturn) {
        if (node.kind == Kind::kCall) visit(parts.rule_starts[node.a], id);
        visit(node.b, id);
      }
    }
  }
};

Grammar::Grammar(Parts parts) : parts_(std::move(parts)) {
  const Reverse reverse(parts_);
  find_need(reverse);
  if (need_[parts_.start] > kMaxFrames) throw Error("grammar", "no text satisfies it");
  const std::vector<bool> nullable = find_nullable(reverse);
  std::vector<uint32_t> mark(parts_.nodes.size());
  for (uint32_t rule = 0; rule < rules(); ++rule) {
    starts_.push_back(find_starts(rule, nullable, mark));
    nullable_.push_back(nullable[parts_.rule_starts[rule]]);
  }
  rank_rules();
  group_bytes();
}

// Nodes are done in the order of their need, each once: a call needs the larger of its two ways, a split the
// smaller.
void Grammar::find_need(const Reverse& reverse) {
  const auto count = static_cast<uint32_t>(parts_.nodes.size());
  need_.assign(count, kNoWay);
  std::vector<uint8_t> open_ways(count, 2);
  std::vector<std::vector<uint32_t>> buckets(kMaxFrames + 1);
  std::vector<bool> done(count);
  buckets[0].push_back(kReturnNode);
  for (uint32_t need = 0; need <= kMaxFrames; ++need) {
    for (size_t i = 0; i < buckets[need].size(); ++i) {
      const uint32_t id = buckets[need][i];
      if (done[id]) continue;
      done[id] = true;
      need_[id] = static_cast<uint16_t>(need);
      for (const uint32_t from : reverse.into(id)) {
        const Node& node = parts_.nodes[from];
        if (done[from] || (node.kind == Kind::kBytes && parts_.classes[node.a].none())) continue;
        uint32_t its = need;
        if (node.kind == Kind::kCall) {
          if (--open_ways[from] > 0) continue;
          its = std::max<uint32_t>(need_[node.b], need_[parts_.rule_starts[node.a]] + (node.b == kReturnNode ? 0 : 1));
        }
        if (its <= kMaxFrames) buckets[its].push_back(from);
      }
    }
  }
}

std::vector<bool> Grammar::find_nullable(const Reverse& reverse) const {
  std::vector<bool> nullable(parts_.nodes.size());
  std::vector<uint8_t> open_ways(parts_.nodes.size(), 2);
  std::vector<uint32_t> work = {kReturnNode};
  nullable[kReturnNode] = true;
  while (!work.empty()) {
    const uint32_t id = work.back();
    work.pop_back();
    for (const uint32_t from : reverse.into(id)) {
      const Kind kind = parts_.nodes[from].kind;
      if (nullable[from] || kind == Kind::kBytes || (kind == Kind::kCall && --open_ways[from] > 0)) continue;
      nullable[from] = true;
      work.push_back(from);
    }
  }
  return nullable;
}

// mark: scratch, [nodes], holding rule + 1 of the last visit.
Grammar::Starts Grammar::find_starts(uint32_t rule, const std::vector<bool>& nullable,
                                     std::vector<uint32_t>& mark) const {
  Starts found;
  std::vector<uint32_t> work = {parts_.rule_starts[rule]};
  while (!work.empty()) {
    const uint32_t id = work.back();
    work.pop_back();
    if (mark[id] == rule + 1 || need_[id] > kMaxFrames) continue;
    mark[id] = rule + 1;
    const Node& node = parts_.nodes[id];
    if (node.kind == Kind::kBytes) {
      found.bytes.push_back(id);
    } else if (node.kind == Kind::kSplit) {
      for (uint32_t i = 0; i < node.b; ++i) work.push_back(parts_.alternatives[node.a + i]);
    } else if (node.kind == Kind::kCall) {
      found.calls.push_back({node.a, node.b});
      if (nullable[parts_.rule_starts[node.a]]) work.push_back(node.b);
    }
  }
  return found;
}

// A depth-first search with its own stack: a rule is ranked from the end once all that it may begin with are. A cycle
// is refused.
void Grammar::rank_rules() {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> colour(rules(), kNew);
  std::vector<std::pair<uint32_t, size_t>> path;
  rank_.assign(rules(), 0);
  rule_of_rank_.assign(rules(), 0);
  uint32_t left = rules();
  for (uint32_t root = 0; root < rules(); ++root) {
    if (colour[root] != kNew) continue;
    path.assign(1, {root, 0});
    colour[root] = kOpen;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == starts_[rule].calls.size()) {
        colour[rule] = kDone;
        rank_[rule] = --left;
        rule_of_rank_[left] = rule;
        path.pop_back();
        continue;
      }
      const uint32_t callee = starts_[rule].calls[next++].rule;
      if (colour[callee] == kOpen) {
        const std::string& name = parts_.rule_names[callee];
        throw Error("grammar", (name.empty() ? "a rule" : "\"" + name + "\"") +
                                   " begins with itself (left recursion); let something else come first");
      }
      if (colour[callee] == kNew) {
        colour[callee] = kOpen;
        path.emplace_back(callee, 0);
      }
    }
  }
}

void Grammar::group_bytes() {
  group_of_.fill(0);
  int32_t groups = 1;
  for (const ByteSet& set : parts_.classes) {
    if (groups == 256) break;
    std::map<std::pair<uint8_t, bool>, uint8_t> split;
    for (int32_t byte = 0; byte < 256; ++byte) {
      const auto key = std::pair(group_of_[byte], set.test(byte));
      const auto fresh = static_cast<uint8_t>(split.size());
      group_of_[byte] = split.emplace(key, fresh).first->second;
    }
    groups = static_cast<int32_t>(split.size());
  }
  group_bytes_.assign(groups, 0);
  for (int32_t byte = 255; byte >= 0; --byte) group_bytes_[group_of_[byte]] = static_cast<uint8_t>(byte);
}

}  // namespace ashlar::grammar
