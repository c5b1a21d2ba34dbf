// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern/regex_dialect.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "text/tokenizer/pattern/unicode_additions.h"

namespace ashlar::text {
namespace {

constexpr std::array<std::string_view, 36> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cs"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kLongNames = {{{"Letter", "L"},
                                                                                      {"Uppercase_Letter", "Lu"},
                                                                                      {"Lowercase_Letter", "Ll"},
                                                                                      {"Mark", "M"},
                                                                                      {"Number", "N"},
                                                                                      {"Decimal_Number", "Nd"},
                                                                                      {"Punctuation", "P"},
                                                                                      {"Symbol", "S"},
                                                                                      {"Separator", "Z"}}};
constexpr std::array<std::string_view, 4> kBinaryProperties = {"Alphabetic", "White_Space", "Any", "Emoji"};
// Escapes that mean the same in both dialects (besides punctuation).
constexpr std::string_view kSharedEscapes = "rntfaeAzZGR";

std::string range_members(const UnicodeAddition& addition) {
  char range[32];
  std::snprintf(range, sizeof range, "\\x{%X}-\\x{%X}", static_cast<unsigned>(addition.first),
                static_cast<unsigned>(addition.last));
  return range;
}

std::string additions_to_category(std::string_view category) {
  std::string out;
  for (const UnicodeAddition& addition : kCategoryAdditions) {
    if (addition.name.starts_with(category)) out += range_members(addition);
  }
  return out;
}

std::string additions_to_property(std::string_view property) {
  std::string out;
  for (const UnicodeAddition& addition : kPropertyAdditions) {
    if (addition.name == property) out += range_members(addition);
  }
  return out;
}

// Members of a class (without brackets) that hold what the Oniguruma escape holds.
std::string word_members() {
  return "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}" + additions_to_category("L") +
         additions_to_category("M") + additions_to_category("Nd");
}
std::string digit_members() { return "\\p{Nd}" + additions_to_category("Nd"); }
constexpr std::string_view kHexMembers = "0-9A-Fa-f";

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view where) : in_(pattern), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) step();
    if (!group_starts_.empty()) fail("a group is not closed");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("tokenizer", std::string(where_) + ": the regular expression '" + for_message(in_) + "' " +
                                 "cannot be translated: " + what + " (at byte " + std::to_string(at_) + ")");
  }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  void begin_atom() { atom_ = out_.size(); }
  void emit_atom(std::string_view text) {
    begin_atom();
    out_ += text;
  }

  void step() {
    const char c = in_[at_];
    if (c == '\\') return escape(false);
    if (c == '[') return character_class();
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (c == '{') return interval();
    if (c == '|' || c == '*' || c == '+' || c == '?') {
      out_ += c;
      ++at_;
      return;
    }
    // The bytes of one character form one atom.
    begin_atom();
    do {
      out_ += in_[at_++];
    } while (at_ < in_.size() && (static_cast<unsigned char>(in_[at_]) & 0xC0U) == 0x80);
  }

  void open_group() {
    group_starts_.push_back(out_.size());
    out_ += '(';
    ++at_;
    if (at_ >= in_.size() || in_[at_] != '?') {
      if (at_ < in_.size() && in_[at_] == '*') fail("'(*' has no meaning here");
      return;
    }
    for (const std::string_view kind : {"?:", "?=", "?!", "?>", "?<=", "?<!"}) {
      if (!next_is(kind)) continue;
      out_ += kind;
      at_ += kind.size();
      return;
    }
    // Inline options: i and x as they are; m of Ruby is s of PCRE2.
    out_ += '?';
    for (++at_; at_ < in_.size(); ++at_) {
      const char c = in_[at_];
      if (c == 'i' || c == 'x' || c == '-') {
        out_ += c;
      } else if (c == 'm') {
        out_ += 's';
      } else if (c == ':') {
        out_ += c;
        ++at_;
        return;
      } else if (c == ')') {
        // Elsewhere than at the start the two disagree on how far (?i) reaches past a '|'.
        if (group_starts_.size() != 1 || group_starts_[0] != 0) fail("options in the middle of the pattern");
        return;  // close_group takes the parenthesis
      } else {
        break;
      }
    }
    fail("this kind of group is not known");
  }

  void close_group() {
    if (group_starts_.empty()) fail("')' without '('");
    atom_ = group_starts_.back();
    group_starts_.pop_back();
    out_ += ')';
    ++at_;
  }

  // {n}, {n,}, {,n}, {n,m}: anything else in braces is literal text.
  void interval() {
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t from = end;
      while (end < in_.size() && in_[end] >= '0' && in_[end] <= '9') ++end;
      return std::string(in_.substr(from, end - from));
    };
    const std::string low = digits();
    const bool comma = end < in_.size() && in_[end] == ',';
    if (comma) ++end;
    const std::string high = comma ? digits() : low;
    if (end >= in_.size() || in_[end] != '}' || (low.empty() && high.empty())) {
      emit_atom("\\{");
      ++at_;
      return;
    }
    at_ = end + 1;
    const std::string bounds = comma ? (low.empty() ? "0" : low) + "," + high : low;
    out_ += "{" + bounds + "}";
    if (next_is("+")) {  // a repeated repetition, not a possessive one
      out_.insert(atom_, "(?:");
      out_ += ')';
    } else if (next_is("?") && !comma) {
      fail("'{n}?' means an optional repetition in Oniguruma");
    }
  }

  void escape(bool in_class) {
    if (at_ + 1 >= in_.size()) fail("it ends in a backslash");
    const char c = in_[at_ + 1];
    if (c == 'p' || c == 'P') return property(in_class);
    if (c == 'x') return hexadecimal_escape();
    if (c == 'u') return unicode_escape();
    at_ += 2;
    switch (c) {
      case 's':
        return members("\\p{White_Space}", false, in_class);
      case 'S':
        return members("\\P{White_Space}", false, in_class);
      case 'd':
        return members(digit_members(), false, in_class);
      case 'D':
        return members(digit_members(), true, in_class);
      case 'w':
        return members(word_members(), false, in_class);
      case 'W':
        return members(word_members(), true, in_class);
      case 'h':
        return members(kHexMembers, false, in_class);
      case 'H':
        return members(kHexMembers, true, in_class);
      case 'v':
        return emit_atom("\\x0B");
      case 'b':
      case 'B':
        return in_class ? fail("\\b in a class") : word_boundary(c == 'B');
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(c);
    const bool punctuation = byte < 0x80 && byte > 0x20 && std::isalnum(byte) == 0;
    const bool shared =
        kSharedEscapes.substr(0, in_class ? 6 : std::string_view::npos).find(c) != std::string_view::npos;
    if (!punctuation && !shared && c != ' ') {
      at_ -= 2;
      fail("the escape '\\" + for_message(in_.substr(at_ + 1, 1)) + "' is not known");
    }
    emit_atom(in_.substr(at_ - 2, 2));
  }

  void members(std::string_view list, bool negated, bool in_class) {
    if (in_class && negated) fail("a negated escape in a class");
    emit_atom(in_class ? std::string(list) : (negated ? "[^" : "[") + std::string(list) + "]");
  }

  void word_boundary(bool negated) {
    const std::string word = "[" + word_members() + "]";
    emit_atom(negated ? "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))"
                      : "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))");
  }

  void hexadecimal_escape() {  // \xHH and \x{H...}: the same in both
    const size_t end = next_is("\\x{") ? in_.find('}', at_) : at_ + 3;
    if (end == std::string_view::npos || end >= in_.size()) fail("\\x needs two digits or braces");
    if (!next_is("\\x{") && in_[at_ + 2] >= '8') fail("\\x80 and above are bytes in Oniguruma; write \\x{..}");
    emit_atom(in_.substr(at_, end + 1 - at_));
    at_ = end + 1;
  }

  void unicode_escape() {
    const std::string_view digits = in_.substr(std::min(at_ + 2, in_.size())).substr(0, 4);
    const bool hex = std::all_of(digits.begin(), digits.end(), [](unsigned char d) { return std::isxdigit(d) != 0; });
    if (digits.size() != 4 || !hex) fail("\\u needs four digits");
    emit_atom("\\x{" + std::string(digits) + "}");
    at_ += 6;
  }

  void property(bool in_class) {
    const bool negated = in_[at_ + 1] == 'P';
    const size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == std::string_view::npos)
      fail("\\p needs a name in braces");
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    for (const auto& [long_name, short_name] : kLongNames) {
      if (name == long_name) name = short_name;
    }
    const bool plain =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (name.empty() || !plain) fail("the property '" + for_message(name) + "' is not known");
    at_ = end + 1;
    const auto among = [name](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
    const bool category = among(kCategories);
    // What is neither is a script; the compiler refuses one that it does not know.
    const std::string known = category || among(kBinaryProperties) ? std::string(name) : "sc:" + std::string(name);
    const std::string extra = category ? additions_to_category(name) : additions_to_property(name);
    if (extra.empty() || (in_class && negated)) return emit_atom((negated ? "\\P{" : "\\p{") + known + "}");
    members("\\p{" + known + "}" + extra, negated, in_class);
  }

  void character_class() {
    const size_t start = out_.size();
    out_ += '[';
    ++at_;
    if (next_is("^")) {
      out_ += '^';
      ++at_;
    }
    if (next_is("]")) fail("an empty class");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (next_is("&&")) fail("the intersection of classes");
      if (in_[at_] == '[') fail("a class within a class");
      if (in_[at_] == '\\') {
        escape(true);
      } else {
        out_ += in_[at_++];
      }
    }
    if (at_ >= in_.size()) fail("a class is not closed");
    out_ += ']';
    ++at_;
    atom_ = start;
  }

  std::string_view in_;
  std::string_view where_;
  std::string out_;
  size_t at_ = 0;
  size_t atom_ = 0;  // where in out_ the last atom starts: what a quantifier applies to
  std::vector<size_t> group_starts_;
};

}  // namespace

std::string translate_oniguruma(std::string_view pattern, std::string_view where) {
  return Translator(pattern, where).run();
}

}  // namespace ashlar::text
