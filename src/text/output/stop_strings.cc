// SPDX-License-Identifier: Apache-2.0
#include "text/output/stop_strings.h"

#include <algorithm>
#include <utility>

#include "text/tokenizer/utf8.h"

namespace ashlar {
namespace {

/// The bytes of `text` that `kept` has a 1 for; `kept` may be longer.
std::string without_hidden(std::string text, const std::string& kept) {
  size_t n = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (kept[i] != '\0') text[n++] = text[i];
  }
  text.resize(n);
  return text;
}

}  // namespace

StopStrings::StopStrings(const std::vector<std::string>& strings) : nodes_(1) {
  for (size_t i = 0; i < strings.size(); ++i) {
    const std::string text = text::replace_invalid_utf8(strings[i]);
    lengths_.push_back(text.size());
    if (!text.empty()) add(text, static_cast<int32_t>(i));
  }
  link();
}

int32_t StopStrings::child(int32_t node, unsigned char byte) const {
  for (const auto& [label, target] : nodes_[node].children) {
    if (label == byte) return target;
  }
  return -1;
}

void StopStrings::add(const std::string& text, int32_t index) {
  int32_t node = 0;
  for (const char c : text) {
    int32_t next = child(node, static_cast<unsigned char>(c));
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({{}, 0, nodes_[node].depth + 1, -1});
      nodes_[node].children.emplace_back(static_cast<unsigned char>(c), next);
    }
    node = next;
  }
  if (nodes_[node].match < 0) nodes_[node].match = index;
}

// Breadth first: the failure of a node is needed for those of its children.
void StopStrings::link() {
  std::vector<int32_t> queue{0};
  for (size_t i = 0; i < queue.size(); ++i) {
    const int32_t parent = queue[i];
    for (const auto& [byte, node] : nodes_[parent].children) {
      queue.push_back(node);
      if (parent != 0) {
        int32_t failure = nodes_[parent].failure;
        while (failure != 0 && child(failure, byte) < 0) failure = nodes_[failure].failure;
        nodes_[node].failure = std::max(0, child(failure, byte));
      }
      if (nodes_[node].match < 0) nodes_[node].match = nodes_[nodes_[node].failure].match;
    }
  }
}

std::string StopStrings::feed(std::string_view text, bool hidden) {
  if (stopped()) return {};
  std::string out = std::exchange(held_, {});
  std::string kept = std::exchange(kept_, {});
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(c);
    kept.push_back(hidden ? '\0' : '\1');
    int32_t next = child(at_, byte);
    while (next < 0 && at_ != 0) {
      at_ = nodes_[at_].failure;
      next = child(at_, byte);
    }
    at_ = std::max(0, next);
    if (const int32_t match = nodes_[at_].match; match >= 0) {
      hit_ = static_cast<size_t>(match);
      out.resize(out.size() - lengths_[*hit_]);
      return without_hidden(std::move(out), kept);
    }
  }
  const size_t released = out.size() - static_cast<size_t>(nodes_[at_].depth);
  held_ = out.substr(released);
  kept_ = kept.substr(released);
  out.resize(released);
  return without_hidden(std::move(out), kept);
}

std::string StopStrings::flush() {
  at_ = 0;
  hit_.reset();
  return without_hidden(std::exchange(held_, {}), std::exchange(kept_, {}));
}

}  // namespace ashlar
