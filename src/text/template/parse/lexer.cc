// SPDX-License-Identifier: Apache-2.0
#include "text/template/parse/lexer.h"

#include <algorithm>
#include <cctype>

#include "text/template/parse/string_literal.h"
#include "text/template/run/budget.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

/// Jinja reads \r\n and \r as \n and drops one newline at the end of the source.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_name_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || c == '_' || byte >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) text_run();
    push(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(const std::string& message) const { throw LocatedFailure(line_, message); }

  bool starts(std::string_view what) const { return std::string_view(text_).substr(at_, what.size()) == what; }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void push(TokenType type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }

  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
  }

  void skip_space() { advance(leading_space(std::string_view(text_).substr(at_))); }

  /// The text before a tag at `tag`, after what the tag's sign ('-', '+' or none) and lstrip_blocks take from it.
  std::string_view before_tag(std::size_t tag, bool block, char sign) const {
    std::string_view data = std::string_view(text_).substr(at_, tag - at_);
    if (sign == '-') return data.substr(0, data.size() - trailing_space(data));
    if (sign == '+' || !block) return data;
    const std::size_t newline = data.rfind('\n');
    const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    const bool at_line_start = start > 0 || at_ == 0 || text_[at_ - 1] == '\n';
    const std::string_view last_line = data.substr(start);
    return at_line_start && leading_space(last_line) == last_line.size() ? data.substr(0, start) : data;
  }

  char sign_at(std::size_t position) const {
    const char c = position < text_.size() ? text_[position] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  /// Literal text up to the next tag, then the tag.
  void text_run() {
    std::size_t tag = at_;
    while ((tag = text_.find('{', tag)) != std::string::npos) {
      const char next = tag + 1 < text_.size() ? text_[tag + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    if (tag == std::string::npos) {
      push(TokenType::kText, text_.substr(at_));
      at_ = text_.size();
      return;
    }
    const char kind = text_[tag + 1];
    const char sign = sign_at(tag + 2);
    const std::string_view data = before_tag(tag, kind != '{', sign);
    if (!data.empty()) push(TokenType::kText, std::string(data));
    advance(tag - at_);
    if (kind == '#') {
      comment(sign);
    } else if (kind == '{') {
      push(TokenType::kVariableBegin, "{{");
      advance(sign != '\0' ? 3 : 2);
      expression(false);
    } else if (!raw_block(sign)) {
      push(TokenType::kBlockBegin, "{%");
      advance(sign != '\0' ? 3 : 2);
      expression(true);
    }
  }

  /// Past the end marker of a block or comment whose marker, "%}" or "#}", stands at the cursor; false when none does.
  bool block_end(std::string_view marker) {
    const char sign = sign_at(at_);
    if (std::string_view(text_).substr(at_ + (sign != '\0' ? 1 : 0), 2) != marker) return false;
    advance(sign != '\0' ? 3 : 2);
    if (sign == '-') {
      skip_space();
    } else if (sign == '\0' && peek() == '\n') {
      advance(1);
    }
    return true;
  }

  void comment(char sign) {
    const int start = line_;
    advance(sign != '\0' ? 3 : 2);
    std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) throw LocatedFailure(start, "missing end of comment tag");
    if (end > at_ && sign_at(end - 1) != '\0') --end;
    advance(end - at_);
    block_end("#}");
  }

  /// The word at `position` after white space, and in `end` where it stops.
  std::string_view word_at(std::size_t position, std::size_t& end) const {
    const std::string_view all = text_;
    position += leading_space(all.substr(position));
    end = position;
    while (end < all.size() && is_name_char(all[end])) ++end;
    return all.substr(position, end - position);
  }

  /// {% raw %}: everything up to {% endraw %} is text. False when the tag at the cursor is another one.
  bool raw_block(char sign) {
    std::size_t end = 0;
    if (word_at(at_ + (sign != '\0' ? 3 : 2), end) != "raw") return false;
    end += leading_space(std::string_view(text_).substr(end));
    const bool strip = end < text_.size() && text_[end] == '-';
    if (text_.compare(end + (strip ? 1 : 0), 2, "%}") != 0) return false;
    const int start = line_;
    advance(end - at_ + (strip ? 3 : 2));
    if (strip) skip_space();
    for (std::size_t tag = at_; (tag = text_.find("{%", tag)) != std::string::npos; ++tag) {
      const char end_sign = sign_at(tag + 2);
      std::size_t after = 0;
      if (word_at(tag + (end_sign != '\0' ? 3 : 2), after) != "endraw") continue;
      const std::string_view data = before_tag(tag, true, end_sign);
      after += leading_space(std::string_view(text_).substr(after));
      const std::size_t marker = after + (sign_at(after) != '\0' ? 1 : 0);
      if (marker > text_.size() || text_.compare(marker, 2, "%}") != 0) continue;
      if (!data.empty()) push(TokenType::kText, std::string(data));
      advance(after - at_);
      block_end("%}");
      return true;
    }
    throw LocatedFailure(start, "missing end of raw directive");
  }

  /// Tokens up to and with the end marker. Inside brackets the marker's characters are ordinary operators.
  void expression(bool block) {
    std::string open;
    for (;;) {
      skip_space();
      if (at_ >= text_.size()) error("unexpected end of template inside a tag");
      if (open.empty() && expression_end(block)) return;
      token(open);
    }
  }

  bool expression_end(bool block) {
    const int line = line_;
    if (block) {
      if (!block_end("%}")) return false;
      tokens_.push_back({TokenType::kBlockEnd, "%}", line});
      return true;
    }
    if (!starts("}}") && !starts("-}}")) return false;
    const bool strip = peek() == '-';
    push(TokenType::kVariableEnd, "}}");
    advance(strip ? 3 : 2);
    if (strip) skip_space();
    return true;
  }

  void token(std::string& open) {
    const char c = peek();
    if (number()) return;
    if (is_name_char(c)) return name();
    if (c == '"' || c == '\'') return string(c);
    for (const std::string_view op : {"//", "**", "==", "!=", ">=", "<="})
      if (starts(op)) return push_operator(op);
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos)
      error(std::string("unexpected character '") + c + "'");
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) error(std::string("unexpected '") + c + "'");
      if (open.back() != c) error(std::string("unexpected '") + c + "', expected '" + open.back() + "'");
      open.pop_back();
    }
    push_operator(std::string_view(text_).substr(at_, 1));
  }

  void push_operator(std::string_view op) {
    push(TokenType::kOperator, std::string(op));
    advance(op.size());
  }

  void name() {
    std::size_t end = at_;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    for (std::size_t i = at_, size = 0; i < end; i += size)
      if (const char32_t code = decode_at(text_, i, size); code >= 0x80 && !is_alpha(code) && !is_digit(code))
        error("unexpected character '" + text_.substr(i, size) + "'");
    push(TokenType::kName, text_.substr(at_, end - at_));
    at_ = end;
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) error("unterminated string literal");
    push(TokenType::kString, unescape(std::string_view(text_).substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1 - at_);
  }

  /// Digits with single underscores between them, from `position`; returns where they stop.
  template <class IsDigit>
  std::size_t digits(std::size_t position, IsDigit is_digit) const {
    std::size_t end = position;
    while (end < text_.size()) {
      const std::size_t next = text_[end] == '_' && end > position ? end + 1 : end;
      if (next >= text_.size() || !is_digit(text_[next])) break;
      end = next + 1;
    }
    return end;
  }

  bool number() {
    const auto decimal = [](char c) { return c >= '0' && c <= '9'; };
    if (!decimal(peek())) return false;
    std::size_t end = digits(at_, decimal);
    if (const std::size_t stop = float_end(end, decimal); stop != 0 && (at_ == 0 || text_[at_ - 1] != '.')) {
      push_number(TokenType::kFloat, stop);
      return true;
    }
    if (peek() == '0') {
      const char base = static_cast<char>(std::tolower(static_cast<unsigned char>(peek(1))));
      const auto in_base = [base](char c) {
        return base == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0
                           : c >= '0' && c <= (base == 'b' ? '1' : '7');
      };
      const std::size_t first = at_ + 2 + (peek(2) == '_' ? 1 : 0);
      if ((base == 'x' || base == 'o' || base == 'b') && first < text_.size() && in_base(text_[first])) {
        end = digits(first, in_base);
      } else {
        end = digits(at_, [](char c) { return c == '0'; });  // "012" reads as 0 and 12, and the parser refuses it
      }
    }
    push_number(TokenType::kInteger, end);
    return true;
  }

  /// Where a float whose integer part stops at `end` stops; 0 when it is no float.
  template <class IsDigit>
  std::size_t float_end(std::size_t end, IsDigit decimal) const {
    std::size_t stop = 0;
    if (end + 1 < text_.size() && text_[end] == '.' && decimal(text_[end + 1])) stop = end = digits(end + 1, decimal);
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const std::size_t exponent = end + 1 + (sign_at(end + 1) != '\0' ? 1 : 0);
      if (exponent < text_.size() && decimal(text_[exponent])) stop = digits(exponent, decimal);
    }
    return stop;
  }

  void push_number(TokenType type, std::size_t end) {
    std::string literal = text_.substr(at_, end - at_);
    literal.erase(std::remove(literal.begin(), literal.end(), '_'), literal.end());
    push(type, std::move(literal));
    at_ = end;
  }

  std::string text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kText:
      return "text";
    case TokenType::kEnd:
      return "end of template";
    case TokenType::kString:
      return "string literal";
    default:
      return "'" + token.text.substr(0, 40) + "'";
  }
}

}  // namespace ashlar::tmpl
