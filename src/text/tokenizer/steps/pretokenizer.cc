// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/steps/pretokenizer.h"

#include <algorithm>
#include <utility>

#include "io/json.h"
#include "text/tokenizer/pattern/pattern.h"
#include "text/tokenizer/pattern/regex_dialect.h"
#include "text/tokenizer/steps/metaspace.h"

namespace ashlar::text {
namespace {

// The pattern of GPT-2, which ByteLevel uses unless use_regex is false.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Numbers as the Rust standard library knows them, which is Unicode 17.
constexpr std::string_view kNumber = R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";
// The reference knows the punctuation of Unicode 8; about 140 younger marks, all of rare scripts, are cut off here and
// not there.
constexpr std::string_view kPunctuation = R"([\p{P}!-/:-@\[-`{-~])";

SplitBehavior behavior_of(const JsonNode& node) {
  const std::string& name = node.text();
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  node.fail("the behavior '" + for_message(name) +
            "' is not known (known: Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous)");
}

struct Section {
  ByteRange range;
  bool matched;  // belongs to a match; the other way round when the split is inverted
};

// Matches and the gaps between them: they cover the text.
std::vector<Section> sections_of(const std::vector<ByteRange>& matches, size_t text_size, bool invert) {
  std::vector<Section> sections;
  sections.reserve(2 * matches.size() + 1);
  size_t end = 0;
  for (const ByteRange& match : matches) {
    if (end != match.begin) sections.push_back({{end, match.begin}, invert});
    sections.push_back({match, !invert});
    end = match.end;
  }
  if (end != text_size) sections.push_back({{end, text_size}, invert});
  return sections;
}

// Each match joins its neighbour (the one before; after, when walking backwards), unless that neighbour is a match too.
template <class Iterator>
std::vector<ByteRange> merge_into_neighbour(Iterator section, Iterator end) {
  std::vector<ByteRange> ranges;
  bool after_match = false;
  for (; section != end; ++section) {
    if (section->matched && !after_match && !ranges.empty()) {
      ranges.back() = {std::min(ranges.back().begin, section->range.begin),
                       std::max(ranges.back().end, section->range.end)};
    } else {
      ranges.push_back(section->range);
    }
    after_match = section->matched;
  }
  return ranges;
}

std::vector<ByteRange> contiguous(const std::vector<Section>& sections) {
  std::vector<ByteRange> ranges;
  bool previous = false;
  for (const Section& section : sections) {
    if (section.matched == previous && !ranges.empty()) {
      ranges.back().end = section.range.end;
    } else {
      ranges.push_back(section.range);
    }
    previous = section.matched;
  }
  return ranges;
}

std::vector<ByteRange> arrange(const std::vector<Section>& sections, SplitBehavior behavior) {
  std::vector<ByteRange> ranges;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Section& section : sections) ranges.push_back(section.range);
      return ranges;
    case SplitBehavior::kRemoved:
      for (const Section& section : sections) {
        if (!section.matched) ranges.push_back(section.range);
      }
      return ranges;
    case SplitBehavior::kMergedWithPrevious:
      return merge_into_neighbour(sections.begin(), sections.end());
    case SplitBehavior::kMergedWithNext:
      ranges = merge_into_neighbour(sections.rbegin(), sections.rend());
      return {ranges.rbegin(), ranges.rend()};
    case SplitBehavior::kContiguous:
      return contiguous(sections);
  }
  return ranges;
}

}  // namespace

void Splitter::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  std::vector<ByteRange> ranges;
  regex_.find_all(text, ranges);
  // The usual pattern matches everything: its matches are the pieces already.
  size_t covered = 0;
  for (const ByteRange& match : ranges) covered += match.end - match.begin;
  if (behavior_ != SplitBehavior::kIsolated || covered != text.size()) {
    ranges = arrange(sections_of(ranges, text.size(), invert_), behavior_);
  }
  for (const ByteRange& range : ranges) {
    if (range.begin != range.end) pieces.push_back(text.substr(range.begin, range.end - range.begin));
  }
}

PreTokenizer::PreTokenizer(const std::optional<JsonNode>& node) {
  if (node) add(*node);
}

void PreTokenizer::split(std::string_view text, bool begins, Pieces& pieces) const {
  pieces.views.clear();
  pieces.owned.clear();
  if (text.empty()) return;
  pieces.views.push_back(text);
  std::vector<std::string_view> before;
  for (const Step& step : steps_) {
    if (const auto* splitter = std::get_if<Splitter>(&step)) {
      before.swap(pieces.views);
      pieces.views.clear();
      for (const std::string_view piece : before) splitter->split(piece, pieces.views);
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      mark_spaces(*metaspace, begins, text, pieces);
    } else {
      for (std::string_view& piece : pieces.views) {
        if (!piece.starts_with(' ')) piece = pieces.owned.emplace_back(" " + std::string(piece));
      }
    }
  }
}

void PreTokenizer::mark_spaces(const Metaspace& step, bool begins, std::string_view text, Pieces& pieces) {
  std::vector<std::string_view> before;
  before.swap(pieces.views);
  for (const std::string_view piece : before) {
    const bool may_begin = !step.only_first || (begins && piece.data() == text.data());
    std::string marked;
    if (step.prefixed && may_begin && !piece.starts_with(' ') && !piece.starts_with(step.space)) marked = step.space;
    for (const char c : piece) c == ' ' ? void(marked += step.space) : marked.push_back(c);
    const std::string_view whole = pieces.owned.emplace_back(std::move(marked));
    step.splitter ? step.splitter->split(whole, pieces.views) : pieces.views.push_back(whole);
  }
}

void PreTokenizer::add(const JsonNode& node) {
  const std::string& type = node.text("type");
  if (byte_level_ && type != "Sequence")
    node.fail("a step after ByteLevel is not supported (found '" + for_message(type) + "')");
  if (type == "Sequence") {
    for (const JsonNode& item : node.at("pretokenizers").items(kMaxSteps)) add(item);
  } else if (steps_.size() >= kMaxSteps) {
    node.fail("expected at most " + std::to_string(kMaxSteps) + " steps in all");
  } else if (type == "Split") {
    add_split(node);
  } else if (type == "ByteLevel") {
    if (node.flag_or("add_prefix_space", true)) steps_.emplace_back(PrefixSpace{});
    if (node.flag_or("use_regex", true)) add_regex(kByteLevelPattern, SplitBehavior::kIsolated, false, node);
    byte_level_ = true;
  } else if (type == "Digits") {
    const bool individual = node.flag_or("individual_digits", false);
    add_regex(kNumber, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false, node);
  } else if (type == "Whitespace") {
    const std::string word(kUnicodeWord);
    add_regex("[" + word + "]+|[^" + word + R"(\s]+)", SplitBehavior::kRemoved, true, node);
  } else if (type == "WhitespaceSplit") {
    add_regex(R"(\s)", SplitBehavior::kRemoved, false, node);
  } else if (type == "Punctuation") {
    const auto behavior = node.find("behavior");
    add_regex(kPunctuation, behavior ? behavior_of(*behavior) : SplitBehavior::kIsolated, false, node);
  } else if (type == "Metaspace") {
    add_metaspace(node);
  } else if (type == "CharDelimiterSplit") {
    const std::string& delimiter = node.text("delimiter");
    if (delimiter.empty()) node.fail("the delimiter is empty");
    steps_.emplace_back(Splitter(Regex::from_literal(delimiter, node.where()), SplitBehavior::kRemoved, false));
  } else {
    node.fail("the pre-tokenizer type '" + for_message(type) +
              "' is not supported (known: Sequence, Split, ByteLevel, Digits, Whitespace, WhitespaceSplit, "
              "Punctuation, CharDelimiterSplit, Metaspace)");
  }
}

void PreTokenizer::add_split(const JsonNode& node) {
  steps_.emplace_back(
      Splitter(compile_pattern(node.at("pattern")), behavior_of(node.at("behavior")), node.flag_or("invert", false)));
}

void PreTokenizer::add_metaspace(const JsonNode& node) {
  const MetaspaceOptions options(node);
  Metaspace step{options.space, options.prefixed, options.only_first, std::nullopt};
  if (node.flag_or("split", true)) {
    step.splitter = Splitter(Regex::from_literal(options.space, node.where()), SplitBehavior::kMergedWithNext, false);
  }
  steps_.emplace_back(std::move(step));
}

void PreTokenizer::add_regex(std::string_view pattern, SplitBehavior behavior, bool invert, const JsonNode& node) {
  steps_.emplace_back(Splitter(Regex::from_oniguruma(pattern, node.where()), behavior, invert));
}

}  // namespace ashlar::text
