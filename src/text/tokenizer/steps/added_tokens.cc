// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/steps/added_tokens.h"

#include <algorithm>
#include <unordered_set>

#include "base/keyed_hash.h"
#include "io/json.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/pattern/regex.h"
#include "text/tokenizer/pattern/regex_dialect.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

// A word character here is that of the Rust regex crate: UTS #18 \w, which has the joiners besides letters, marks and
// digits.
bool is_word_character(std::string_view character) {
  static const Regex word = Regex::from_oniguruma("\\A[" + std::string(kUnicodeWord) + "]", "built in");
  std::vector<ByteRange> matches;
  word.find_all(character, matches);
  return !matches.empty();
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(text.substr(utf8_previous(text, text.size())));
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word_character(text.substr(0, utf8_at(text, 0).length));
}

// Where the white space at the end of text[0, end) begins, not before `from`.
size_t space_before(std::string_view text, size_t from, size_t end) {
  while (end > from) {
    const size_t previous = utf8_previous(text, end);
    if (!is_white_space(utf8_at(text, previous).code_point)) break;
    end = previous;
  }
  return end;
}

size_t space_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Unit unit = utf8_at(text, at);
    if (!is_white_space(unit.code_point)) break;
    at += unit.length;
  }
  return at;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonNode& node) {
  std::vector<AddedToken> tokens;
  TextSet contents;
  std::unordered_set<int32_t> ids;
  for (const JsonNode& item : node.items()) {
    AddedToken token;
    token.id = static_cast<int32_t>(item.index("id", kMaxVocabulary));
    token.content = item.text("content");
    token.special = item.flag_or("special", false);
    token.single_word = item.flag_or("single_word", false);
    token.lstrip = item.flag_or("lstrip", false);
    token.rstrip = item.flag_or("rstrip", false);
    token.literal = item.flag_or("literal", false);
    token.normalized = token.literal || item.flag_or("normalized", !token.special);
    if (token.content.empty()) continue;
    if (!contents.insert(token.content).second)
      item.fail("the token '" + for_message(token.content) + "' is listed twice");
    if (!ids.insert(token.id).second) {
      item.fail("the id " + std::to_string(token.id) + " of '" + for_message(token.content) + "' is listed twice");
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {
  std::vector<std::string_view> texts;
  texts.reserve(patterns_.size());
  for (const Pattern& pattern : patterns_) texts.push_back(pattern.text);
  texts_ = PatternSet(texts);
}

void AddedTokenMatcher::split(std::string_view text, const Choose& choose, std::vector<Segment>& segments) const {
  size_t done = 0;  // text[0, done) is in segments
  texts_.find_all(text, [&](PatternSet::Match match) {
    const AddedToken& token = patterns_[match.pattern].token;
    size_t begin = match.begin;
    size_t end = begin + patterns_[match.pattern].text.size();
    const Choice choice = choose(token, begin, end);
    if (choice == Choice::kOther) return false;
    if (choice == Choice::kLeave) return true;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) return true;
    // text[begin, done), if there is any, is space that the token before has swallowed.
    if (token.lstrip) begin = begin > done ? space_before(text, done, begin) : done;
    if (token.rstrip) end = space_after(text, std::max(end, done));
    if (done < begin) segments.push_back({-1, text.substr(done, begin - done)});
    // A token made of white space, all of which its neighbour has swallowed, is no token any more.
    if (begin < end) segments.push_back({token.id, text.substr(begin, end - begin)});
    // As in the reference also where that goes back: what the token before has swallowed after this one is text again.
    done = end;
    return true;
  });
  if (done < text.size()) segments.push_back({-1, text.substr(done)});
}

}  // namespace ashlar::text
