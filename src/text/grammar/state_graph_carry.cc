// SPDX-License-Identifier: Apache-2.0
// States of one graph in another one, which begins anew where the first has grown too large.

#include <algorithm>
#include <utility>

#include "text/grammar/state_graph.h"

namespace ashlar::grammar {

// Stacks by their id here, those that the configurations lead to. Each comes after those that its links lead to.
std::unordered_map<uint32_t, uint32_t> StateGraph::carry_stacks(std::span<const Config> configs,
                                                                StateGraph& other) const {
  std::unordered_map<uint32_t, uint32_t> carried = {{0, 0}};
  std::vector<uint32_t> order;
  const auto add = [&](uint32_t stack) {
    if (carried.emplace(stack, 0).second) order.push_back(stack);
  };
  for (const Config& config : configs) add(config.stack);
  for (size_t i = 0; i < order.size(); ++i) {
    for (const Link& link : links(order[i])) add(link.stack);
  }
  std::sort(order.begin(), order.end());
  std::vector<Link> moved;
  for (const uint32_t stack : order) {
    moved.clear();
    for (const Link& link : links(stack)) moved.push_back({link.node, carried[link.stack]});
    std::sort(moved.begin(), moved.end());
    carried[stack] = other.intern_stack(moved);
  }
  return carried;
}

std::vector<StateGraph::Config> StateGraph::carry_configs(std::span<const Config> configs, StateGraph& other) const {
  std::unordered_map<uint32_t, uint32_t> carried = carry_stacks(configs, other);
  std::vector<Config> moved(configs.begin(), configs.end());
  for (Config& config : moved) config.stack = carried[config.stack];
  std::sort(moved.begin(), moved.end());
  return moved;
}

// The places on the path to the next node; those below it are stale.
void StateGraph::carry_search(Search& search, const TokenTrie& trie, StateGraph& other) const {
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  const size_t depth = search.node < nodes.size() ? nodes[search.node].depth : 0;
  std::vector<Place> path(search.path.size());
  for (size_t i = 0; i < depth; ++i) {
    const Place& from = search.path[i];
    if (from.state == kUnknown) {
      path[i] = {kUnknown, carry_configs(from.configs, other), from.shape};
    } else {
      path[i].state = other.intern(carry_configs(states_[from.state].configs, other), states_[from.state].accepting);
    }
  }
  search.path.swap(path);
}

StateGraph::State StateGraph::carry_to(State state, const TokenTrie& trie, StateGraph& other) {
  const State to = other.intern(carry_configs(states_[state].configs, other), states_[state].accepting);
  std::unique_ptr<Search>& search = states_[state].search;
  if (search && other.states_[to].mask.empty() && !other.states_[to].search) {
    carry_search(*search, trie, other);
    search->id = ++other.searches_;
    other.states_[to].search = std::move(search);
  }
  return to;
}

}  // namespace ashlar::grammar
