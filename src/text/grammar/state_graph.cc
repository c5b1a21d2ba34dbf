#include "text/grammar/state_graph.h"

#include <algorithm>
#include <utility>

namespace ashlar::grammar {
namespace {

constexpr size_t kMarks = 4 * StateGraph::kMaxConfigs;  // a power of two, twice the most configurations visited

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
    : grammar_(grammar), groups_(static_cast<size_t>(grammar.groups())), marks_(kMarks) {
  frames_.push_back({Grammar::kReturnNode, 0, 0});
  ++stamp_;
  visit(grammar_.start(), 0);
  const bool accepting = close();
  start_ = intern(closed_, accepting);
}

uint32_t StateGraph::push(uint32_t node, uint32_t parent) {
  const auto [at, fresh] = frame_ids_.emplace((uint64_t{node} << 32) | parent, static_cast<uint32_t>(frames_.size()));
  if (fresh) {
    frames_.push_back({node, parent, frames_[parent].depth + 1});
    bytes_ += sizeof(Frame) + 48;
  }
  return at->second;
}

// Puts a configuration on the list of those to expand, once, if it can be completed within the depth.
void StateGraph::visit(uint32_t node, uint32_t frame) {
  if (visited_ > kMarks / 2 || frames_[frame].depth + grammar_.need(node) > Grammar::kMaxFrames) return;
  const Config config = {node, frame};
  size_t at = mixed((uint64_t{node} << 32) | frame) % kMarks;
  while (marks_[at].stamp == stamp_) {
    if (marks_[at].config == config) return;
    at = (at + 1) % kMarks;
  }
  marks_[at] = {config, stamp_};
  ++visited_;
  work_.push_back(config);
}

bool StateGraph::expand(Config config, bool& accepting) {
  const Grammar::Node node = grammar_.node(config.node);
  switch (node.kind) {
    case Grammar::Kind::kBytes:
      closed_.push_back(config);
      break;
    case Grammar::Kind::kSplit:
      for (uint32_t i = 0; i < node.b; ++i) visit(grammar_.alternative(node.a + i), config.frame);
      break;
    case Grammar::Kind::kCall:
      // A call at the end of its rule returns where its caller does.
      visit(grammar_.rule_start(node.a), node.b == Grammar::kReturnNode ? config.frame : push(node.b, config.frame));
      break;
    case Grammar::Kind::kReturn:
      if (config.frame == 0) {
        accepting = true;
      } else {
        visit(frames_[config.frame].node, frames_[config.frame].parent);
      }
  }
  return visited_ <= kMarks / 2 && closed_.size() <= kMaxConfigs;
}

// From work_ to closed_: all configurations that wait for a byte. Whether the text may end instead.
bool StateGraph::close() {
  closed_.clear();
  bool accepting = false;
  bool fits = true;
  while (!work_.empty() && fits) {
    const Config config = work_.back();
    work_.pop_back();
    fits = expand(config, accepting);
  }
  work_.clear();
  spent_ += visited_;
  visited_ = 0;
  if (!fits) {
    throw TooAmbiguous("grammar", "a text can be read in more than " + std::to_string(kMaxConfigs) +
                                      " ways at once; let the alternatives begin differently, or share what they "
                                      "begin with");
  }
  if (spent_ > may_spend_ || bytes_ > kMaxBytes) {
    throw TooAmbiguous("grammar",
                       "finding out what may come next takes too long, because a text can be read in so many ways; let "
                       "the alternatives begin differently, or repeat less");
  }
  std::sort(closed_.begin(), closed_.end());
  return accepting;
}

StateGraph::State StateGraph::intern(std::vector<Config> configs, bool accepting) {
  if (configs.empty() && !accepting) return kDead;
  uint64_t hash = accepting ? 1 : 0;
  for (const Config& config : configs) hash = mixed(hash ^ ((uint64_t{config.node} << 32) | config.frame)) + 1;
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Entry& entry = states_[it->second];
    if (entry.accepting == accepting && entry.configs == configs) return it->second;
  }
  Entry entry;
  entry.configs = std::move(configs);
  entry.accepting = accepting;
  next_.insert(next_.end(), groups_, kUnknown);
  bytes_ += sizeof(Entry) + 48 + entry.configs.size() * sizeof(Config) + groups_ * sizeof(State);
  states_.push_back(std::move(entry));
  const auto id = static_cast<State>(states_.size() - 1);
  by_hash_.emplace(hash, id);
  return id;
}

// To closed_: what waits for a byte after this one. Whether the text may end there.
bool StateGraph::close_after(std::span<const Config> configs, uint8_t byte) {
  if (++stamp_ == 0) {
    std::fill(marks_.begin(), marks_.end(), Mark{});
    stamp_ = 1;
  }
  for (const Config& config : configs) {
    const Grammar::Node& node = grammar_.node(config.node);
    if (grammar_.byte_class(node.a).test(byte)) visit(node.b, config.frame);
  }
  spent_ += configs.size() / 8;
  return close();
}

StateGraph::State StateGraph::find_step(State state, int32_t group) {
  const bool accepting = close_after(states_[state].configs, grammar_.group_byte(group));
  return next(state, group) = intern(closed_, accepting);
}

StateGraph::State StateGraph::step(State state, uint8_t byte) {
  const uint8_t group = grammar_.group(byte);
  const State known = next(state, group);
  return known == kUnknown ? find_step(state, group) : known;
}

ByteSet StateGraph::next_bytes(State state) const {
  ByteSet set;
  for (const Config& config : states_[state].configs) set |= grammar_.byte_class(grammar_.node(config.node).a);
  return set;
}

// Whether plain bytes lead back to the state, as inside of a string: then tokens of such bytes alone need no walk.
bool StateGraph::loops_on_plain(State state) {
  for (uint8_t byte = 0x20; byte < 0x7F; ++byte) {
    if (TokenTrie::is_plain(byte) && step(state, byte) != state) return false;
  }
  return true;
}

// As step, but where there is little room left nothing new is kept: a mask may meet as many states as the vocabulary
// has beginnings of tokens, and each may be large.
void StateGraph::step_to(const Place& from, uint8_t byte, Place& to) {
  const bool kept = from.state != kUnknown;
  const uint8_t group = grammar_.group(byte);
  if (kept && next(from.state, group) != kUnknown) {
    to.state = next(from.state, group);
  } else if (kept && bytes_ < kRoomy) {
    to.state = find_step(from.state, group);
  } else {
    const bool accepting = close_after(kept ? states_[from.state].configs : from.configs, byte);
    to.state = closed_.empty() && !accepting ? kDead : kUnknown;
    to.configs.assign(closed_.begin(), closed_.end());
  }
}

void StateGraph::fill_mask(State state, const TokenTrie& trie, std::vector<uint32_t>& mask) {
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  const std::span<const int32_t> tokens = trie.tokens();
  path_.resize(trie.max_depth() + 1);
  path_[0].state = state;
  const bool skips = loops_on_plain(state);
  if (skips) std::copy(trie.plain_tokens().begin(), trie.plain_tokens().end(), mask.begin());
  for (uint32_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    if (skips && node.all_plain && path_[node.depth - 1].state == state) {
      i = node.end;
      // What came before need not be plain. At the root it is nothing, and the tokens are there already.
      const size_t last = i < nodes.size() ? nodes[i].first_token : tokens.size();
      if (node.depth > 1) set_bits(mask, tokens.subspan(node.first_token, last - node.first_token));
      continue;
    }
    step_to(path_[node.depth - 1], node.byte, path_[node.depth]);
    if (path_[node.depth].state == kDead) {
      i = node.end;
      continue;
    }
    set_bits(mask, tokens.subspan(node.first_token, node.n_tokens));
    ++i;
  }
}

void StateGraph::mask(State state, const TokenTrie& trie, std::span<uint32_t> mask) {
  const size_t words = (static_cast<size_t>(trie.vocab()) + 31) / 32;
  if (states_[state].mask.empty()) {
    if (mask_bytes_ + words * sizeof(uint32_t) > kMaxMaskBytes) forget_masks();
    std::vector<uint32_t> found(words);
    may_spend_ = spent_ + kMaxMaskWork;
    try {
      fill_mask(state, trie, found);
    } catch (...) {
      may_spend_ = UINT64_MAX;
      throw;
    }
    may_spend_ = UINT64_MAX;
    states_[state].mask = std::move(found);
    mask_bytes_ += words * sizeof(uint32_t);
  }
  states_[state].mask_used = ++clock_;
  const auto shared = static_cast<int64_t>(std::min(words, mask.size()));
  std::copy_n(states_[state].mask.begin(), shared, mask.begin());
  std::fill(mask.begin() + shared, mask.end(), 0U);
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

uint32_t StateGraph::carry_frame(uint32_t frame, StateGraph& other) const {
  std::vector<uint32_t> nodes;
  for (; frame != 0; frame = frames_[frame].parent) nodes.push_back(frames_[frame].node);
  uint32_t carried = 0;
  for (size_t i = nodes.size(); i-- > 0;) carried = other.push(nodes[i], carried);
  return carried;
}

StateGraph::State StateGraph::carry_to(State state, StateGraph& other) const {
  std::vector<Config> configs = states_[state].configs;
  for (Config& config : configs) config.frame = carry_frame(config.frame, other);
  std::sort(configs.begin(), configs.end());
  return other.intern(std::move(configs), states_[state].accepting);
}

}  // namespace ashlar::grammar
