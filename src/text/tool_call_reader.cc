#include "text/tool_call_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "io/json.h"

namespace ashlar::text {
namespace {

constexpr size_t kMaxDepth = 60;  // parse_json's own limit is 64
constexpr size_t kMaxName = 256;
constexpr std::string_view kClose = "</tool_call>";
constexpr std::array<std::string_view, 4> kFirst = {"name", "type", "parameters", "arguments"};  // keys of bare calls

bool is_arguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The value of a quoted JSON string, if it makes a function's name.
std::optional<std::string> name_in(std::string_view quoted) {
  try {
    const Json value = parse_json(quoted, "name");
    if (!value.is_string()) return std::nullopt;
    auto name = value.get<std::string>();
    if (name.empty() || name.size() > kMaxName) return std::nullopt;
    return name;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Arguments as JSON text: an object as written; an object wrapped into a string, unwrapped; none as {}.
std::optional<std::string> arguments_in(const Json& value, std::string_view written) {
  if (value.is_null()) return "{}";
  if (value.is_object()) return std::string(written);
  if (!value.is_string()) return std::nullopt;
  const auto inner = value.get<std::string>();
  return parse_json(inner, "arguments").is_object() ? std::optional(inner) : std::nullopt;
}

}  // namespace

JsonOutline::Status JsonOutline::feed(char c) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
    return Status::kOpen;
  }
  if (is_space(c)) return Status::kOpen;
  if (open_.empty() && c != '{') return Status::kBroken;
  if (c == '{' || c == '[') {
    if (open_.size() == kMaxDepth) return Status::kBroken;
    open_ += c == '{' ? '}' : ']';
  } else if (c == '}' || c == ']') {
    if (open_.back() != c) return Status::kBroken;
    open_.pop_back();
    if (open_.empty()) return Status::kDone;
  } else if (c == '"') {
    in_string_ = true;
  } else if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
             std::string_view(":,+-.").find(c) == std::string_view::npos) {
    return Status::kBroken;
  }
  return Status::kOpen;
}

ToolCallReader::Status ToolCallReader::feed(char c, News& news) {
  switch (mode_) {
    case Mode::kHead:
      return feed_head(c, news);
    case Mode::kArguments:
      // Whatever breaks the arguments now, they have been handed on: what is left follows as the model wrote it.
      if (outline_.feed(c) == JsonOutline::Status::kBroken) {
        mode_ = Mode::kRaw;
        return feed(c, news);
      }
      news.arguments += c;
      if (outline_.depth() == 1) mode_ = Mode::kTail;
      return Status::kOpen;
    case Mode::kRaw:
    case Mode::kTail:
      return bare_ ? feed_tail(c, news) : feed_to_tag(c, news);
  }
  return Status::kFailed;
}

ToolCallReader::Status ToolCallReader::feed_head(char c, News& news) {
  body_ += c;
  const auto status = outline_.feed(c);
  if (status == JsonOutline::Status::kBroken) return Status::kFailed;
  if (status == JsonOutline::Status::kDone) {
    if (!take_whole(news)) return Status::kFailed;
    mode_ = Mode::kTail;
    return bare_ ? Status::kClosed : Status::kOpen;
  }
  followed_ = followed_ && follow(c);
  if (bare_ && !followed_) return Status::kFailed;
  if (mode_ == Mode::kArguments) {
    news.name = name_;
    news.arguments += c;
  }
  return Status::kOpen;
}

// The newest byte of the head, among the members of its object. False: they are not JSON, or not a bare call's.
bool ToolCallReader::follow(char c) {
  const bool was_quoted = std::exchange(quoted_, outline_.in_string());
  if (was_quoted ? quoted_ : is_space(c)) return true;
  if (quoted_) quote_ = body_.size() - 1;
  switch (place_) {
    case Place::kObject:
      place_ = Place::kKey;
      return true;
    case Place::kKey:
      if (quoted_ || c != '"') return quoted_;
      place_ = Place::kColon;
      return end_key();
    case Place::kColon:
      place_ = Place::kValue;
      return c == ':';
    case Place::kValue:
      place_ = Place::kRest;
      if (key_ == "name") return c == '"' && !name_;
      if (!is_arguments(key_)) return true;
      value_ = body_.size() - 1;
      if (c == '{' && name_) mode_ = Mode::kArguments;
      return !bare_ || c == '{';
    case Place::kRest:
      if (key_ == "name" && c != ',') return end_name();
      if (outline_.depth() > 1) return true;
      if (c == ',') place_ = Place::kKey;
      if (c == '}' && is_arguments(key_) && (key_ == "arguments" || written_.empty())) written_ = body_.substr(value_);
      return true;
  }
  return false;
}

bool ToolCallReader::end_key() {
  const bool first = key_.empty();
  key_ = name_in(std::string_view(body_).substr(quote_)).value_or("");
  return !bare_ || !first || std::find(kFirst.begin(), kFirst.end(), key_) != kFirst.end();
}

// A name is one string, and a comma follows it.
bool ToolCallReader::end_name() {
  if (quoted_ || name_) return false;
  name_ = name_in(std::string_view(body_).substr(quote_));
  return name_ && (!bare_ || std::find(tools_.begin(), tools_.end(), *name_) != tools_.end());
}

// body_ is a whole object.
bool ToolCallReader::take_whole(News& news) {
  try {
    const Json call = parse_json(body_, "tool call");
    const Json arguments = call.value("arguments", call.value("parameters", Json()));
    if (bare_ && !arguments.is_object()) return false;
    const auto text = arguments_in(arguments, written_);
    if (!text || !name_) return false;
    news.name = name_;
    news.arguments += *text;
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Up to the closing tag text is arguments (kRaw) or dropped (kTail). The tag's first byte occurs in it once only, so a
// mismatch can begin a tag anew only with the byte that mismatched.
ToolCallReader::Status ToolCallReader::feed_to_tag(char c, News& news) {
  if (c != kClose[tag_.size()]) {
    if (mode_ == Mode::kRaw) news.arguments += tag_;
    tag_.clear();
  }
  if (c == kClose[tag_.size()]) {
    tag_ += c;
    return tag_.size() == kClose.size() ? Status::kClosed : Status::kOpen;
  }
  if (mode_ == Mode::kRaw) news.arguments += c;
  return Status::kOpen;
}

// Broken arguments of a bare call go on to the end. Behind whole ones other members are dropped; since models forget
// the last bracket, what is no member does not belong to the call.
ToolCallReader::Status ToolCallReader::feed_tail(char c, News& news) {
  if (mode_ == Mode::kRaw) {
    news.arguments += c;
    return Status::kOpen;
  }
  if (place_ == Place::kRest && !is_space(c) && c != ',' && c != '}') return Status::kPassed;
  if (c == ',') place_ = Place::kKey;
  const auto status = outline_.feed(c);
  if (status == JsonOutline::Status::kBroken) return Status::kPassed;
  return status == JsonOutline::Status::kDone ? Status::kClosed : Status::kOpen;
}

ToolCallReader::Status ToolCallReader::finish(News& news, bool named_is_call) {
  if (mode_ == Mode::kHead) {
    if (named_is_call) news.name = name_;
    return news.name ? Status::kClosed : Status::kFailed;
  }
  if (mode_ == Mode::kRaw) news.arguments += tag_;
  return Status::kClosed;
}

}  // namespace ashlar::text
