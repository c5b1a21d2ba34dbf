// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/pattern/pattern_cursor.h"

#include <cctype>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::grammar {
namespace {

bool single(const CodePointSet& set) {
  return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second;
}

}  // namespace

PatternCursor::PatternCursor(std::string_view text, std::string_view what, Reading reading)
    : text_(text), what_(what), reading_(reading) {
  if (!text::is_valid_utf8(text)) throw Error("grammar", std::string(what) + " is not valid UTF-8");
}

void PatternCursor::fail(const std::string& problem) const {
  throw Error("grammar", std::string(what_) + " \"" + for_message(text_) + "\": " + problem + " (at byte " +
                             std::to_string(at_) + ")");
}

bool PatternCursor::take(std::string_view expected) {
  if (!next_is(expected)) return false;
  at_ += expected.size();
  return true;
}

void PatternCursor::expect(std::string_view expected) {
  if (!take(expected)) fail("expected '" + std::string(expected) + "'");
}

uint32_t PatternCursor::code_point() {
  if (at_end()) fail("it ends too early");
  const text::Utf8Unit unit = text::utf8_at(text_, at_);
  at_ += unit.length;
  return unit.code_point;
}

uint32_t PatternCursor::hex(int32_t digits) {
  uint32_t value = 0;
  for (int32_t i = 0; i < digits; ++i) {
    const char c = peek();
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) fail("expected " + std::to_string(digits) + " hex digits");
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    value = value * 16 + static_cast<uint32_t>(digit);
    ++at_;
  }
  return value;
}

// After \u: four digits, or two such escapes that make a surrogate pair.
uint32_t PatternCursor::unicode_escape() {
  const uint32_t first = hex(4);
  if (first < 0xD800 || first > 0xDFFF) return first;
  if (first < 0xDC00 && take("\\u")) {
    const uint32_t second = hex(4);
    if (second >= 0xDC00 && second <= 0xDFFF) return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }
  fail("half of a surrogate pair stands alone");
}

// What is left out of a set is read the other way. But in what is written \d, \w and their opposites are of ASCII.
CodePointSet PatternCursor::kind(const CharKind& chars, bool left_out) const {
  if (reading_ == Reading::kNarrow && chars.ascii_written) return chars.narrow;
  return chars.as(left_out ? opposite(reading_) : reading_);
}

CodePointSet PatternCursor::escape(bool in_class, bool left_out) {
  const uint32_t c = code_point();
  const auto one = [](uint32_t code_point) { return CodePointSet({{code_point, code_point}}); };
  switch (c) {
    case 'd':
      return kind(digits(), left_out);
    case 'D':
      return kind(digits(), !left_out).complement();
    case 'w':
      return kind(word_chars(), left_out);
    case 'W':
      return kind(word_chars(), !left_out).complement();
    case 's':
      return kind(white_space(), left_out);
    case 'S':
      return kind(white_space(), !left_out).complement();
    case 'n':
      return one('\n');
    case 't':
      return one('\t');
    case 'r':
      return one('\r');
    case 'f':
      return one('\f');
    case 'v':
      return one('\v');
    case 'x':
      return one(hex(2));
    case 'u':
      return one(unicode_escape());
    case 'b':
      if (in_class) return one('\b');
      fail("word boundaries (\\b) are not supported");
    default:
      break;
  }
  if (c < 0x80 && std::isdigit(static_cast<int>(c)) != 0) fail("back references are not supported");
  if (c < 0x80 && std::isalpha(static_cast<int>(c)) != 0) {
    fail(std::string("the escape \\") + static_cast<char>(c) + " is not supported");
  }
  return one(c);
}

CodePointSet PatternCursor::char_class() {
  const bool negated = take("^");
  std::vector<CodePointSet::Range> ranges;
  const auto member = [&] {
    if (take("\\")) return escape(true, negated);
    const uint32_t c = code_point();
    return CodePointSet({{c, c}});
  };
  while (!take("]")) {
    if (at_end()) fail("a class '[' is not closed");
    const CodePointSet first = member();
    const bool range = peek() == '-' && !next_is("-]");
    if (!range) {
      ranges.insert(ranges.end(), first.ranges().begin(), first.ranges().end());
      continue;
    }
    expect("-");
    const CodePointSet last = member();
    if (!single(first) || !single(last)) fail("a range needs single characters at both ends");
    const uint32_t low = first.ranges()[0].first;
    const uint32_t high = last.ranges()[0].first;
    if (low > high) fail("a range in a class is the wrong way round");
    ranges.emplace_back(low, high);
  }
  const CodePointSet set(std::move(ranges));
  if (set.empty()) fail("a class is empty; escape the ']' if it belongs to the class");
  return negated ? set.complement() : set;
}

int32_t PatternCursor::number() {
  int32_t value = 0;
  const size_t begin = at_;
  while (peek() >= '0' && peek() <= '9') {
    if (at_ - begin == 9) fail("a number is too large");
    value = value * 10 + (peek() - '0');
    ++at_;
  }
  if (at_ == begin) fail("expected a number; a '{' that is meant literally is written \\{");
  return value;
}

void PatternCursor::counts(int64_t& min, int64_t& max) {
  min = max = number();
  if (take(",")) max = peek() == '}' ? -1 : number();
  expect("}");
  if (max >= 0 && max < min) fail("a repetition's counts are the wrong way round");
}

}  // namespace ashlar::grammar
