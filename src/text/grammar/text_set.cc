// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/text_set.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "text/grammar/state_graph.h"

namespace ashlar::grammar {
namespace {

constexpr int64_t kStateCost = 8;  // steps of a compilation

void check_size(size_t states) {
  if (states <= TextSet::kMaxStates) return;
  throw TextSet::TooLarge("grammar", "what its rules for a text allow together needs more than " +
                                         std::to_string(TextSet::kMaxStates) + " states; make them simpler");
}

}  // namespace

std::string json_byte(uint8_t byte) {
  constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
  const size_t named = kNamed.find(static_cast<char>(byte));
  if (named != std::string_view::npos) return std::string("\\") + "\"\\bfnrt"[named];
  if (byte >= 0x20) return std::string(1, static_cast<char>(byte));
  return std::string("\\u00") + (byte < 16 ? '0' : '1') + "0123456789abcdef"[byte % 16];
}

TextSet TextSet::of(Builder& charge, const std::function<Expr(Builder&)>& make) {
  Builder builder(&charge);
  const Expr wanted = make(builder);
  // A first byte that is no UTF-8 stands for nothing at all, which a grammar cannot be.
  ByteSet outside;
  outside.set(0xFF);
  const Grammar grammar = builder.finish(builder.alternatives({wanted, builder.bytes(outside)}));
  StateGraph graph(grammar);
  std::vector<State> states(1);
  std::unordered_map<StateGraph::State, int32_t> ids = {{graph.start(), 0}};
  std::vector<StateGraph::State> order = {graph.start()};
  for (size_t i = 0; i < order.size(); ++i) {
    charge.step(kStateCost + static_cast<int64_t>(graph.width(order[i])) * grammar.groups() / 8);
    states[i].accepting = graph.accepting(order[i]);
    for (int32_t byte = 0; byte < 0xFF; ++byte) {
      const StateGraph::State next = graph.step(order[i], static_cast<uint8_t>(byte));
      if (next == StateGraph::kDead) continue;
      const auto [at, fresh] = ids.emplace(next, static_cast<int32_t>(order.size()));
      if (fresh) {
        order.push_back(next);
        states.emplace_back();
        check_size(order.size());
      }
      states[i].next[static_cast<size_t>(byte)] = at->second;
    }
  }
  return TextSet(std::move(states));
}

// States are separated by what they accept, then by which of the classes found so far they lead to, until no class
// splits any more (Moore).
TextSet TextSet::minimal(Builder& charge) const {
  std::vector<size_t> columns;  // bytes that some state treats unlike the byte before
  for (size_t byte = 0; byte < 256; ++byte) {
    const bool differs = byte == 0 || std::any_of(states_.begin(), states_.end(), [byte](const State& state) {
                           return state.next[byte] != state.next[byte - 1];
                         });
    if (differs) columns.push_back(byte);
  }
  const std::vector<bool> useful = alive();
  std::vector<int32_t> class_of(states_.size());
  for (size_t id = 0; id < states_.size(); ++id) class_of[id] = !useful[id] ? kNone : states_[id].accepting ? 1 : 0;
  const auto class_after = [&](size_t id, size_t byte) {
    const int32_t next = states_[id].next[byte];
    return next == kNone ? kNone : class_of[static_cast<size_t>(next)];
  };
  for (size_t count = 0;;) {
    charge.step(static_cast<int64_t>(states_.size() * columns.size() / 16));
    std::map<std::vector<int32_t>, int32_t> found;
    std::vector<int32_t> refined(states_.size(), kNone);
    for (size_t id = 0; id < states_.size(); ++id) {
      if (!useful[id]) continue;
      std::vector<int32_t> kind = {class_of[id]};
      for (const size_t byte : columns) kind.push_back(class_after(id, byte));
      refined[id] = found.emplace(std::move(kind), static_cast<int32_t>(found.size())).first->second;
    }
    class_of = std::move(refined);
    if (found.size() == count) break;
    count = found.size();
  }
  if (!useful[0]) return TextSet({State()});
  // States are numbered by their first member, and so the start is the first.
  std::vector<State> states;
  for (size_t id = 0; id < states_.size(); ++id) {
    if (class_of[id] != static_cast<int32_t>(states.size())) continue;
    states.emplace_back();
    states.back().accepting = states_[id].accepting;
    for (size_t byte = 0; byte < 256; ++byte) states.back().next[byte] = class_after(id, byte);
  }
  return TextSet(std::move(states));
}

TextSet TextSet::any_string(Builder& charge) {
  return of(charge, [](Builder& builder) { return builder.repeat(builder.chars(CodePointSet::all()), 0, -1); });
}

TextSet TextSet::product(Builder& charge, const TextSet& other, bool both) const {
  using Pair = std::pair<int32_t, int32_t>;
  std::vector<State> states(1);
  std::map<Pair, int32_t> ids = {{{0, 0}, 0}};
  std::vector<Pair> order = {{0, 0}};
  const State nowhere;
  for (size_t i = 0; i < order.size(); ++i) {
    charge.step(kStateCost);
    const State& left = states_[static_cast<size_t>(order[i].first)];
    const State& right = order[i].second == kNone ? nowhere : other.states_[static_cast<size_t>(order[i].second)];
    states[i].accepting = left.accepting && right.accepting == both;
    Pair last = {kNone, kNone};
    int32_t last_id = kNone;
    for (size_t byte = 0; byte < 256; ++byte) {
      const Pair next = {left.next[byte], right.next[byte]};
      if (next.first == kNone || (both && next.second == kNone)) continue;
      if (next != last) {
        const auto [at, fresh] = ids.emplace(next, static_cast<int32_t>(order.size()));
        if (fresh) {
          order.push_back(next);
          states.emplace_back();
          check_size(order.size());
        }
        last = next;
        last_id = at->second;
      }
      states[i].next[byte] = last_id;
    }
  }
  return TextSet(std::move(states));
}

bool TextSet::contains(std::string_view text) const {
  int32_t at = 0;
  for (const char c : text) {
    at = states_[static_cast<size_t>(at)].next[static_cast<unsigned char>(c)];
    if (at == kNone) return false;
  }
  return states_[static_cast<size_t>(at)].accepting;
}

bool TextSet::empty() const { return !alive()[0]; }

// States from which a text can end.
std::vector<bool> TextSet::alive() const {
  std::vector<std::vector<int32_t>> from(states_.size());
  std::vector<bool> found(states_.size());
  std::vector<int32_t> work;
  for (size_t id = 0; id < states_.size(); ++id) {
    int32_t last = kNone;
    for (const int32_t next : states_[id].next) {
      if (next != kNone && next != last) from[static_cast<size_t>(next)].push_back(static_cast<int32_t>(id));
      last = next;
    }
    if (!states_[id].accepting) continue;
    found[id] = true;
    work.push_back(static_cast<int32_t>(id));
  }
  while (!work.empty()) {
    const auto id = static_cast<size_t>(work.back());
    work.pop_back();
    for (const int32_t source : from[id]) {
      if (found[static_cast<size_t>(source)]) continue;
      found[static_cast<size_t>(source)] = true;
      work.push_back(source);
    }
  }
  return found;
}

// A rule for each state; its last call is no deeper than itself.
Expr TextSet::write(Builder& builder, bool escaped) const {
  const std::vector<bool> useful = alive();
  if (!useful[0]) return builder.never();
  std::vector<Rule> rules(states_.size());
  for (size_t id = 0; id < states_.size(); ++id) {
    if (useful[id]) rules[id] = builder.declare({});
  }
  for (size_t id = 0; id < states_.size(); ++id) {
    if (!useful[id]) continue;
    std::map<int32_t, std::pair<ByteSet, std::vector<std::string>>> ways;  // by where they lead
    for (size_t byte = 0; byte < 256; ++byte) {
      const int32_t next = states_[id].next[byte];
      if (next == kNone || !useful[static_cast<size_t>(next)]) continue;
      const std::string spelling = json_byte(static_cast<uint8_t>(byte));
      if (escaped && spelling.size() > 1) {
        ways[next].second.push_back(spelling);
      } else {
        ways[next].first.set(byte);
      }
    }
    std::vector<Expr> body;
    if (states_[id].accepting) body.push_back(builder.empty());
    for (auto& [next, by] : ways) {
      std::vector<Expr> read;
      if (by.first.any()) read.push_back(builder.bytes(by.first));
      if (!by.second.empty()) read.push_back(builder.strings(std::move(by.second)));
      body.push_back(
          builder.sequence({builder.alternatives(std::move(read)), builder.call(rules[static_cast<size_t>(next)])}));
    }
    builder.define(rules[id], builder.alternatives(std::move(body)));
  }
  return builder.call(rules[0]);
}

}  // namespace ashlar::grammar
