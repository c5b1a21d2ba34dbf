// SPDX-License-Identifier: Apache-2.0
#include "text/output/tool_call_reader.h"

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
      if (outline_.feed(c) == JsonOutline::Status::kBroken) return Status::kBroken;
      news.arguments += c;
      if (outline_.depth() == 1) begin_tail();
      return Status::kOpen;
    case Mode::kTail:
      return feed_tail(c);
  }
  return Status::kFailed;
}

ToolCallReader::Status ToolCallReader::feed_head(char c, News& news) {
  body_ += c;
  const auto status = outline_.feed(c);
  if (status == JsonOutline::Status::kBroken) return Status::kFailed;
  if (status == JsonOutline::Status::kDone) return take_whole(news) ? Status::kClosed : Status::kFailed;
  if (!follow(c)) return Status::kFailed;
  if (mode_ == Mode::kArguments) {
    news.name = name_;
    news.arguments += c;
  }
  return Status::kOpen;
}

// The newest byte of body_, among the members of its object. False: they are not JSON, or not a call's.
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
      if (value_ > 0) return false;  // there are arguments already, and only one can be the call's
      value_ = body_.size() - 1;
      if (c == '{' && name_) mode_ = Mode::kArguments;
      return c == '{' || c == '"' || c == 'n';
    case Place::kRest:
      if (key_ == "name" && c != ',') return end_name();
      if (outline_.depth() > 1) return true;
      if (c == ',') place_ = Place::kKey;
      if (c == '}' && is_arguments(key_)) written_ = body_.substr(value_);
      return true;
  }
  return false;
}

bool ToolCallReader::end_key() {
  const bool first = key_.empty();
  key_ = name_in(std::string_view(body_).substr(quote_)).value_or("");
  return tools_.empty() || !first || std::find(kFirst.begin(), kFirst.end(), key_) != kFirst.end();
}

// A name is one string, and a comma follows it.
bool ToolCallReader::end_name() {
  if (quoted_ || name_) return false;
  name_ = name_in(std::string_view(body_).substr(quote_));
  return name_ && (tools_.empty() || std::find(tools_.begin(), tools_.end(), *name_) != tools_.end());
}

// body_ is a whole object.
bool ToolCallReader::take_whole(News& news) {
  try {
    const Json call = parse_json(body_, "tool call");
    const auto text = arguments_in(call.value("arguments", call.value("parameters", Json())), written_);
    if (!text || !name_) return false;
    news.name = name_;
    news.arguments += *text;
    return true;
  } catch (const Error&) {
    return false;
  }
}

void ToolCallReader::begin_tail() {
  mode_ = Mode::kTail;
  body_.clear();
  place_ = Place::kRest;
}

// After its arguments an object has further members, or none, and its last bracket. Models forget that bracket: what
// is no member does not belong to the call.
ToolCallReader::Status ToolCallReader::feed_tail(char c) {
  const bool between = body_.find(',') == std::string::npos;
  body_ += c;
  const auto status = outline_.feed(c);
  if (status == JsonOutline::Status::kBroken) return Status::kPassed;
  if (between && !is_space(c) && c != ',' && c != '}') return Status::kPassed;
  const bool ends_member =
      !outline_.in_string() && (status == JsonOutline::Status::kDone || (outline_.depth() == 1 && c == ','));
  if (ends_member && !end_member()) return Status::kPassed;
  if (status == JsonOutline::Status::kDone) return Status::kClosed;
  return follow(c) ? Status::kOpen : Status::kPassed;
}

// body_: a comma and a member, or nothing, and the byte after it, which is kept.
bool ToolCallReader::end_member() {
  std::string_view member = std::string_view(body_).substr(0, body_.size() - 1);
  member.remove_prefix(std::min(member.find(',') + 1, member.size()));  // no comma: white space
  try {
    parse_json("{" + std::string(member) + "}", "tool call");
  } catch (const Error&) {
    return false;
  }
  body_.erase(0, body_.size() - 1);
  return true;
}

ToolCallReader::Status ToolCallReader::finish(News& news, bool named_is_call) {
  if (mode_ != Mode::kHead) return mode_ == Mode::kTail ? Status::kPassed : Status::kBroken;
  if (named_is_call) news.name = name_;
  return news.name ? Status::kBroken : Status::kFailed;
}

}  // namespace ashlar::text
