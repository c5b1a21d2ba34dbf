// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a parser of answers makes of pieces of text.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "text/output/output_parser.h"

namespace ashlar::text::test {

struct Split {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
  bool operator==(const Split&) const = default;
};

inline void PrintTo(const Split& split, std::ostream* out) {
  *out << "reasoning <" << split.reasoning << "> content <" << split.content << ">";
  for (const auto& [name, arguments] : split.calls) *out << " call " << name << " <" << arguments << ">";
}

using Kind = OutputParser::Kind;
using Parts = OutputParser::Parts;

inline void take(const Parts& parts, Split& split) {
  for (const OutputParser::Part& part : parts) {
    if (part.kind == Kind::kReasoning) split.reasoning += part.text;
    if (part.kind == Kind::kContent) split.content += part.text;
    if (part.kind != Kind::kCall) continue;
    if (!part.name.empty()) {
      EXPECT_EQ(part.call, static_cast<int32_t>(split.calls.size()));
      split.calls.emplace_back(part.name, "");
    }
    ASSERT_EQ(part.call + 1, static_cast<int32_t>(split.calls.size()));
    split.calls.back().second += part.text;
  }
}

inline Parts parts_of(const std::vector<std::string>& pieces, OutputParser::Options options) {
  OutputParser parser(options);
  Parts all;
  for (const std::string& piece : pieces) {
    for (auto& part : parser.push(piece)) all.push_back(part);
  }
  for (auto& part : parser.finish()) all.push_back(part);
  return all;
}

inline Split parse(const std::vector<std::string>& pieces, OutputParser::Options options = {}) {
  Split split;
  take(parts_of(pieces, options), split);
  return split;
}

/// The parts in their order, a line each.
inline std::string order_of(const std::vector<std::string>& pieces, OutputParser::Options options = {}) {
  std::string out;
  std::string last;
  for (const OutputParser::Part& part : parts_of(pieces, options)) {
    if (part.text.empty()) continue;
    const std::string head = part.kind == Kind::kReasoning ? "reasoning: "
                             : part.kind == Kind::kContent ? "content: "
                                                           : "call " + std::to_string(part.call) + ": ";
    if (head != last) out += (out.empty() ? "" : "\n") + head;
    last = head;
    out += part.text;
  }
  return out;
}

/// The text of one kind.
inline std::string only(Kind kind, const Parts& parts) {
  std::string text;
  for (const OutputParser::Part& part : parts) {
    if (part.kind == kind) text += part.text;
  }
  return text;
}

inline const OutputParser::Options kOpened{true, true, true};
inline const OutputParser::Options kBare{.bare = {"f", "get"}};
using Calls = std::vector<std::pair<std::string, std::string>>;

}  // namespace ashlar::text::test
