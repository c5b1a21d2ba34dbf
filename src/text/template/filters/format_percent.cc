// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <cmath>

#include "text/template/filters/format.h"
#include "text/template/values/dict.h"
#include "text/template/values/escape.h"
#include "text/template/values/number_format.h"
#include "text/template/values/print.h"
#include "text/template/values/text_ops.h"
#include "text/template/values/utf8.h"

namespace ashlar::tmpl {
namespace {

constexpr std::int64_t kMaxWidth = std::int64_t{1} << 40;  // far beyond what a string may have

/// Renders text % arguments, one conversion after the other.
class PercentFormat {
 public:
  PercentFormat(Budget& budget, const Value& text, const Value& arguments)
      : budget_(budget),
        whole_(text.as_text()),
        text_(whole_.bytes),
        markup_(whole_.markup),
        arguments_(arguments),
        out_(budget) {}

  SourcedText run() {
    budget_.work(text_.size());
    for (at_ = 0; at_ < text_.size();) {
      const std::size_t percent = text_.find('%', at_);
      copy(text_.substr(at_, percent - at_));
      if (percent == std::string_view::npos) break;
      at_ = percent + 1;
      conversion();
    }
    // Python lets everything with subscripts pass as a mapping that is not asked; Jinja's undefined has them too.
    const bool mapping = arguments_.is(Kind::kDict) || arguments_.is(Kind::kList) || arguments_.is(Kind::kRange) ||
                         arguments_.is_undefined();
    const std::size_t given = arguments_.is(Kind::kTuple) ? arguments_.as_items().size() : 1;
    if (!mapping && used_ < given) fail("not all arguments converted during string formatting");
    return out_.take();
  }

 private:
  void put(const SourcedText& piece) {
    budget_.work(piece.bytes.size());
    out_.put(piece);
  }

  /// A part of the format as it is.
  void copy(std::string_view part) {
    budget_.work(part.size());
    out_.put_part(whole_, part);
  }

  char next() {
    if (at_ >= text_.size()) fail("incomplete format");
    return text_[at_++];
  }

  const Value& argument() {
    if (keyed_ != nullptr) return *keyed_;
    const bool tuple = arguments_.is(Kind::kTuple);
    if (used_ >= (tuple ? arguments_.as_items().size() : 1)) fail("not enough arguments for format string");
    const std::size_t index = used_++;
    return tuple ? arguments_.as_items()[index] : arguments_;
  }

  void key() {
    if (!arguments_.is(Kind::kDict)) fail("format requires a mapping");
    const std::size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) fail("incomplete format key");
    const std::string name(text_.substr(at_, end - at_));
    keyed_ = arguments_.as_dict().find(name);
    if (keyed_ == nullptr) fail("format key '" + name + "' is missing");
    at_ = end + 1;
  }

  std::int64_t star_or_number() {
    if (at_ < text_.size() && text_[at_] == '*') {
      ++at_;
      const Value& value = argument();
      if (!value.is_integral()) fail("* wants int");
      return value.as_int();
    }
    return read_number(text_, at_);
  }

  void conversion() {
    if (at_ < text_.size() && text_[at_] == '%') {
      return copy(text_.substr(at_++, 1));
    }
    keyed_ = nullptr;
    FieldStyle style;
    style.origin = whole_.origins.greatest();
    bool zero = false;
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      key();
    }
    for (; at_ < text_.size() && std::string_view("-+ #0").find(text_[at_]) != std::string_view::npos; ++at_) {
      const char flag = text_[at_];
      if (flag == '-') style.align = '<';
      if (flag == '+' || (flag == ' ' && style.sign != '+')) style.sign = flag;
      style.alternate |= flag == '#';
      zero |= flag == '0';
    }
    style.width = star_or_number();
    if (style.width < -1) {  // a negative width means left; -1 is an absent one
      style.align = '<';
      style.width = style.width < -kMaxWidth ? kMaxWidth : -style.width;
    }
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      style.precision = std::max<std::int64_t>(0, star_or_number());
    }
    while (at_ < text_.size() && (text_[at_] == 'h' || text_[at_] == 'l' || text_[at_] == 'L')) ++at_;
    style.type = next();
    convert(style, zero);
  }

  void convert(FieldStyle& style, bool zero) {
    const Value& value = argument();
    switch (style.type) {
      case 's':
      case 'r':
      case 'a':
        return convert_text(style, value);
      case 'c':
        return convert_character(style, value);
      default:
        break;
    }
    if (std::string_view("diuxXoeEfFgG").find(style.type) == std::string_view::npos)
      fail(std::string("unsupported format character '") + style.type + "'");
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_number())
      fail(std::string("%") + style.type + " format: a number is required, not " + value.type_name());
    if (zero && style.align == '\0') {
      style.align = '=';
      style.fill = "0";
    }
    if (std::string_view("diuxXo").find(style.type) != std::string_view::npos) return convert_int(style, value);
    const double number = value.as_number();
    if (!std::isfinite(number)) style.fill = " ";
    put(pad_number(budget_, style, std::signbit(number), "",
                   float_digits(number, style.type, style.precision, style.alternate)));
  }

  void convert_text(const FieldStyle& style, const Value& value) {
    SourcedText text;
    if (style.type == 's') {
      text = to_str(budget_, value).as_text();
    } else {
      FlatText repr = to_repr(budget_, value);
      text = {std::move(repr.bytes), repr.origin};
    }
    const bool safe = value.is(Kind::kString) && value.as_text().markup && style.type == 's';
    if (markup_ && !safe) text = {escape_html(text.bytes), text.origins.greatest()};
    if (style.precision >= 0) {
      const std::size_t end = byte_offset(text.bytes, static_cast<std::size_t>(style.precision));
      text = {text.bytes.substr(0, end), text.origins.slice(0, end)};
    }
    put(pad_text(budget_, style, std::move(text), style.align == '<' ? '<' : '>'));
  }

  void convert_character(const FieldStyle& style, const Value& value) {
    SourcedText text;
    if (value.is(Kind::kString) && value.as_text().length == 1) {
      text = value.as_text();
    } else if (value.is_integral()) {
      text = code_character(value.as_int());
    } else {
      fail("%c requires an integer or a single character");
    }
    put(pad_text(budget_, style, text, style.align == '<' ? '<' : '>'));
  }

  void convert_int(const FieldStyle& style, const Value& value) {
    const bool decimal = std::string_view("diu").find(style.type) != std::string_view::npos;
    std::int64_t number = 0;
    if (value.is(Kind::kFloat)) {
      if (!decimal) fail(std::string("%") + style.type + " format: an integer is required, not float");
      if (!(std::fabs(value.as_float()) < 9.2e18)) fail("cannot convert the float to a 64-bit integer");
      number = static_cast<std::int64_t>(value.as_float());
    } else {
      number = value.as_int();
    }
    const int base = decimal ? 10 : style.type == 'o' ? 8 : 16;
    const std::uint64_t size = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    std::string digits = int_digits(size, base, style.type == 'X');
    if (style.precision > 1000) fail("limit of 1000 digits of precision exceeded");
    if (const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(0, style.precision));
        digits.size() < wanted)
      digits.insert(0, wanted - digits.size(), '0');
    const std::string prefix = decimal || !style.alternate ? "" : std::string("0") + style.type;
    put(pad_number(budget_, style, number < 0, prefix, digits));
  }

  Budget& budget_;
  const Text& whole_;
  std::string_view text_;
  bool markup_;
  const Value& arguments_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
  const Value* keyed_ = nullptr;
  TextBuilder out_;
};

}  // namespace

Value format_percent(Budget& budget, const Value& text, const Value& arguments) {
  return make_string(budget, PercentFormat(budget, text, arguments).run(), text.as_text().markup);
}

}  // namespace ashlar::tmpl
