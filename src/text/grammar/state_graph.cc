// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/state_graph.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace ashlar::grammar {
namespace {

constexpr size_t kFewMarks = 1024;
constexpr size_t kBytesOfStack = 64;  // with its place in the table

uint64_t mixed(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9E3779B97F4A7C15ULL;
  return x ^ (x >> 29);
}

void set_bits(std::vector<uint32_t>& mask, std::span<const int32_t> ids) {
  for (const int32_t id : ids) mask[static_cast<uint32_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32);
}

}  // namespace

StateGraph::StateGraph(const Grammar& grammar)
    : grammar_(grammar), groups_(static_cast<size_t>(grammar.groups())), marks_(kFewMarks), called_(grammar.rules()) {
  const Link end = {Grammar::kReturnNode, 0};
  intern_stack({&end, 1});
  ++stamp_;
  visit(grammar_.start(), 0);
  const bool accepting = close();
  start_ = intern(closed_, accepting);
}

// links: sorted, all different.
uint32_t StateGraph::intern_stack(std::span<const Link> links) {
  uint64_t hash = 0;
  for (const Link& link : links) hash = mixed(hash ^ ((uint64_t{link.node} << 32) | link.stack)) + 1;
  const auto [begin, end] = stack_ids_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const std::span<const Link> known = this->links(it->second);
    if (std::equal(known.begin(), known.end(), links.begin(), links.end())) return it->second;
  }
  Stack stack = {static_cast<uint32_t>(links_.size()), static_cast<uint32_t>(links.size()), Grammar::kMaxFrames, 1};
  if (!stacks_.empty()) stack.shape = shape_of(links, false);
  for (const Link& link : links) {
    stack.depth = link.node == Grammar::kReturnNode ? 0 : std::min(stack.depth, stacks_[link.stack].depth + 1);
    if (stack.depth == 0) break;
  }
  links_.insert(links_.end(), links.begin(), links.end());
  bytes_ += kBytesOfStack + links.size() * sizeof(Link);
  const auto id = static_cast<uint32_t>(stacks_.size());
  stacks_.push_back(stack);
  stack_ids_.emplace(hash, id);
  return id;
}

// In any order, since that of the stacks' ids is the graph's own.
uint64_t StateGraph::shape_of(std::span<const Config> configs, bool accepting) const {
  uint64_t sum = accepting ? 1 : 0;
  for (const Config& config : configs) sum += mixed(mixed(stacks_[config.stack].shape) + config.node + 1);
  return mixed(sum + configs.size());
}

// Where the configuration is among those of this closure, or would be.
size_t StateGraph::place_of(Config config) const {
  size_t at = mixed((uint64_t{config.node} << 32) | config.stack) & (marks_.size() - 1);
  while (marks_[at].stamp == stamp_ && marks_[at].config != config) at = (at + 1) & (marks_.size() - 1);
  return at;
}

void StateGraph::grow_marks() {
  const std::vector<Mark> before = std::exchange(marks_, std::vector<Mark>(2 * marks_.size()));
  for (const Mark& mark : before) {
    if (mark.stamp == stamp_) marks_[place_of(mark.config)] = mark;
  }
}

// Puts a configuration on the list of those to expand, once, if it can be completed within the depth.
void StateGraph::visit(uint32_t node, uint32_t stack) {
  if (visited_ > 2 * kMaxConfigs || !fits(node, stack)) return;
  const Config config = {node, stack};
  if (2 * visited_ >= marks_.size()) grow_marks();
  Mark& mark = marks_[place_of(config)];
  if (mark.stamp == stamp_) return;
  mark = {config, stamp_};
  ++visited_;
  work_.push_back(config);
}

// A call at the end of its rule returns where its caller does.
void StateGraph::call(uint32_t rule, uint32_t next, uint32_t stack) {
  std::vector<Link>& callers = called_[rule];
  if (callers.empty()) {
    due_.push_back(grammar_.rank(rule));
    std::push_heap(due_.begin(), due_.end(), std::greater<>());
  }
  if (next != Grammar::kReturnNode) {
    callers.push_back({next, stack});
  } else {
    const std::span<const Link> further = links(stack);
    callers.insert(callers.end(), further.begin(), further.end());
    visited_ += further.size() / 8;
  }
}

// False: the text may end here.
bool StateGraph::expand(Config config) {
  const Grammar::Node node = grammar_.node(config.node);
  switch (node.kind) {
    case Grammar::Kind::kBytes:
      closed_.push_back(config);
      break;
    case Grammar::Kind::kSplit:
      for (uint32_t i = 0; i < node.b; ++i) visit(grammar_.alternative(node.a + i), config.stack);
      break;
    case Grammar::Kind::kCall:
      call(node.a, node.b, config.stack);
      if (grammar_.nullable(node.a)) visit(node.b, config.stack);
      break;
    case Grammar::Kind::kReturn:
      if (config.stack == 0) return false;
      for (const Link& link : links(config.stack)) visit(link.node, link.stack);
  }
  return true;
}

// The beginning of a rule for all who have called it. Where it is empty its callers went on themselves.
void StateGraph::begin(uint32_t rule) {
  std::vector<Link>& callers = called_[rule];
  std::sort(callers.begin(), callers.end());
  callers.erase(std::unique(callers.begin(), callers.end()), callers.end());
  const uint32_t stack = intern_stack(callers);
  visited_ += 1 + callers.size() / 8;
  callers.clear();
  for (const uint32_t node : grammar_.first_bytes(rule)) {
    if (fits(node, stack)) closed_.push_back({node, stack});
  }
  for (const Grammar::LeftCall& left : grammar_.left_calls(rule)) {
    if (fits(left.next, stack)) call(left.rule, left.next, stack);
  }
  visited_ += grammar_.first_bytes(rule).size() + grammar_.left_calls(rule).size();
}

void StateGraph::clear_scratch() {
  for (const uint32_t rank : due_) called_[grammar_.rule_of_rank(rank)].clear();
  due_.clear();
  work_.clear();
  visited_ = 0;
}

// From work_ to closed_: all configurations that wait for a byte. Whether the text may end instead. First what follows
// from rules that ended, then the rules that were called, each after all that may call it.
bool StateGraph::close() {
  closed_.clear();
  bool accepting = false;
  while (!work_.empty() && in_limits()) {
    const Config config = work_.back();
    work_.pop_back();
    accepting = !expand(config) || accepting;
  }
  while (!due_.empty() && in_limits()) {
    begin(grammar_.rule_of_rank(due_.front()));  // it calls rules of higher ranks only
    std::pop_heap(due_.begin(), due_.end(), std::greater<>());
    due_.pop_back();
  }
  const bool fits = in_limits();
  spent_ += visited_;
  clear_scratch();
  if (!fits) {
    throw TooAmbiguous("grammar", "a text can be read in more than " + std::to_string(kMaxConfigs) +
                                      " ways at once; let the alternatives begin differently, or share what they "
                                      "begin with");
  }
  if (bytes_ > kMaxBytes) {
    throw TooAmbiguous("grammar",
                       "finding out what may come next takes too much memory, because a text can be read in too many "
                       "ways; let the alternatives begin differently, or repeat less");
  }
  std::sort(closed_.begin(), closed_.end());
  closed_.erase(std::unique(closed_.begin(), closed_.end()), closed_.end());
  return accepting;
}

StateGraph::State StateGraph::intern(std::vector<Config> configs, bool accepting) {
  if (configs.empty() && !accepting) return kDead;
  uint64_t hash = accepting ? 1 : 0;
  for (const Config& config : configs) hash = mixed(hash ^ ((uint64_t{config.node} << 32) | config.stack)) + 1;
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Entry& entry = states_[it->second];
    if (entry.accepting == accepting && entry.configs == configs) return it->second;
  }
  Entry entry;
  entry.configs = std::move(configs);
  entry.accepting = accepting;
  entry.shape = shape_of(entry.configs, accepting);
  next_.resize((states_.size() + 1) * groups_, {kUnknown, 0});  // if what follows throws, the next state finds it so
  bytes_ += sizeof(Entry) + 48 + entry.configs.size() * sizeof(Config) + groups_ * sizeof(Step);
  states_.push_back(std::move(entry));
  const auto id = static_cast<State>(states_.size() - 1);
  by_hash_.emplace(hash, id);
  return id;
}

// To closed_: what waits for a byte after this one. Whether the text may end there.
bool StateGraph::close_after(std::span<const Config> configs, uint8_t byte) {
  clear_scratch();  // of a closure in whose midst memory ran out
  if (++stamp_ == 0) {
    std::fill(marks_.begin(), marks_.end(), Mark{});
    stamp_ = 1;
  }
  for (const Config& config : configs) {
    const Grammar::Node& node = grammar_.node(config.node);
    if (grammar_.byte_class(node.a).test(byte)) visit(node.b, config.stack);
  }
  spent_ += configs.size() / 8;
  return close();
}

StateGraph::Step StateGraph::find_step(State state, int32_t group) {
  const uint64_t before = spent_;
  const bool accepting = close_after(states_[state].configs, grammar_.group_byte(group));
  const uint32_t cost = cost_since(before);
  const State to = intern(closed_, accepting);
  return next(state, group) = {to, cost};
}

StateGraph::Step StateGraph::follow(State state, uint8_t byte) {
  const uint8_t group = grammar_.group(byte);
  const Step known = next(state, group);
  return known.to == kUnknown ? find_step(state, group) : known;
}

ByteSet StateGraph::next_bytes(State state) const {
  ByteSet set;
  for (const Config& config : states_[state].configs) set |= grammar_.byte_class(grammar_.node(config.node).a);
  return set;
}

// As follow, but where there is little room left nothing new is kept: a mask may meet as many states as the vocabulary
// has beginnings of tokens, and each may be large.
void StateGraph::step_to(const Place& from, uint8_t byte, Place& to, Search& search) {
  const bool kept = from.state != kUnknown;
  const uint8_t group = grammar_.group(byte);
  const uint64_t key = mixed((kept ? shape(from.state) : from.shape) + group);
  if (kept && (next(from.state, group).to != kUnknown || bytes_ < kRoomy)) {
    const Step step = follow(from.state, byte);
    to.state = step.to;
    if (step.search == search.id) {
      search.repeated += step.cost;
    } else {
      search.count(key, step.cost);
      next(from.state, group).search = search.id;
    }
    return;
  }
  const uint64_t before = spent_;
  const bool accepting = close_after(kept ? states_[from.state].configs : from.configs, byte);
  to.state = closed_.empty() && !accepting ? kDead : kUnknown;
  to.configs.assign(closed_.begin(), closed_.end());
  to.shape = shape_of(to.configs, accepting);
  search.count(key, cost_since(before));
}

// Whether plain bytes lead back to the state, as inside of a string: then tokens of such bytes alone need no walk.
// False: there is more to do.
bool StateGraph::try_plain(State state, const TokenTrie& trie, uint64_t most, uint64_t until, Search& search) {
  for (; search.skips && search.byte < 0x7F; ++search.byte) {
    if (!TokenTrie::is_plain(search.byte)) continue;
    if (spent_ >= until || width(state) > most) return false;
    const Step step = follow(state, search.byte);
    search.count(mixed(shape(state) + grammar_.group(search.byte)), step.cost);
    search.skips = step.to == state;
  }
  if (search.skips && search.node == 0) {
    std::copy(trie.plain_tokens().begin(), trie.plain_tokens().end(), search.mask.begin());
  }
  return true;
}

bool StateGraph::walk(State state, const TokenTrie& trie, uint64_t most, uint64_t until, Search& search) {
  constexpr uint64_t kNodesOfOne = 8;  // take as long as one configuration
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  const std::span<const int32_t> tokens = trie.tokens();
  std::vector<Place>& path = search.path;
  for (uint32_t& i = search.node; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Place& from = path[node.depth - 1];
    if (spent_ >= until || width_of(from) > most) return false;
    if (++search.nodes % kNodesOfOne == 0) {
      ++spent_;
      ++search.distinct;
    }
    if (search.skips && node.all_plain && from.state == state) {
      i = node.end;
      // What came before need not be plain. At the root it is nothing, and the tokens are there already.
      const size_t last = i < nodes.size() ? nodes[i].first_token : tokens.size();
      if (node.depth > 1) set_bits(search.mask, tokens.subspan(node.first_token, last - node.first_token));
      continue;
    }
    step_to(from, node.byte, path[node.depth], search);
    if (search.cost() > kMaxMaskWork) {
      throw TooAmbiguous("grammar",
                         "finding out what may come next takes too long, because a text can be read in too many ways; "
                         "let the alternatives begin differently, or repeat less");
    }
    if (path[node.depth].state == kDead) {
      i = node.end;
    } else {
      set_bits(search.mask, tokens.subspan(node.first_token, node.n_tokens));
      ++i;
    }
  }
  return true;
}

const std::vector<uint32_t>* StateGraph::find_mask(State state, const TokenTrie& trie, uint64_t most, uint64_t* cost) {
  if (!states_[state].no_mask.empty()) throw TooAmbiguous("grammar", states_[state].no_mask);
  if (states_[state].mask.empty()) {
    if (!states_[state].search) {
      auto search = std::make_unique<Search>();
      search->mask.resize((static_cast<size_t>(trie.vocab()) + 31) / 32);
      search->path.resize(trie.max_depth() + 1);
      search->path[0].state = state;
      search->id = ++searches_;
      states_[state].search = std::move(search);
    }
    Search& search = *states_[state].search;  // stays where it is while states are added
    const uint64_t until = most < UINT64_MAX - spent_ ? spent_ + most : UINT64_MAX;
    try {
      const bool found = try_plain(state, trie, most, until, search) && walk(state, trie, most, until, search);
      if (cost != nullptr) *cost = search.cost();
      if (!found) return nullptr;
    } catch (const TooAmbiguous& error) {
      // Where memory is what lacks another graph may have it.
      if (bytes_ <= kMaxBytes) states_[state].no_mask = std::string(error.message());
      states_[state].search.reset();
      throw;
    }
    keep_mask(states_[state]);
  }
  Entry& entry = states_[state];
  entry.mask_used = ++clock_;
  if (cost != nullptr) *cost = entry.mask_cost;
  return &entry.mask;
}

void StateGraph::keep_mask(Entry& entry) {
  const size_t bytes = entry.search->mask.size() * sizeof(uint32_t);
  if (mask_bytes_ + bytes > kMaxMaskBytes) forget_masks();
  mask_bytes_ += bytes;
  entry.mask = std::move(entry.search->mask);
  entry.mask_cost = entry.search->cost();
  entry.search.reset();
}

// Drops the half that was used longest ago.
void StateGraph::forget_masks() {
  std::vector<uint64_t> times;
  for (const Entry& entry : states_) {
    if (!entry.mask.empty()) times.push_back(entry.mask_used);
  }
  if (times.empty()) return;
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  for (Entry& entry : states_) {
    if (entry.mask.empty() || entry.mask_used > *middle) continue;
    mask_bytes_ -= entry.mask.size() * sizeof(uint32_t);
    std::vector<uint32_t>().swap(entry.mask);
  }
}

}  // namespace ashlar::grammar
