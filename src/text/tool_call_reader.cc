#include "text/tool_call_reader.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "io/json.h"

namespace ashlar::text {
namespace {

constexpr size_t kMaxDepth = 60;  // parse_json's own limit is 64
constexpr size_t kMaxName = 256;
constexpr std::string_view kClose = "</tool_call>";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// A cursor over text known to be balanced.
struct Cursor {
  std::string_view text;
  size_t at = 0;

  void skip_space() {
    while (at < text.size() && is_space(text[at])) ++at;
  }
  bool take(char c) {
    skip_space();
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }
  /// A JSON string with its quotes; empty if there is none.
  std::string_view take_string() {
    skip_space();
    const size_t begin = at;
    if (!take('"')) return {};
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    if (at >= text.size()) return {};
    return text.substr(begin, ++at - begin);
  }
  /// Any value, up to the comma or bracket that follows it.
  std::string_view take_value() {
    skip_space();
    const size_t begin = at;
    for (size_t depth = 0; at < text.size();) {
      const char c = text[at];
      if (c == '"') {
        take_string();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']' || c == ',') {
        if (depth == 0) break;
        if (c != ',') --depth;
      }
      ++at;
    }
    size_t end = std::min(at, text.size());
    while (end > begin && is_space(text[end - 1])) --end;
    return text.substr(begin, end - begin);
  }
};

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
        return feed_to_tag(c, news);
      }
      news.arguments += c;
      if (outline_.depth() == 1) mode_ = Mode::kTail;
      return Status::kOpen;
    case Mode::kRaw:
    case Mode::kTail:
      return feed_to_tag(c, news);
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
  } else if (may_stream_ && outline_.depth() == 2) {
    may_stream_ = false;
    if (announce(news)) mode_ = Mode::kArguments;
  }
  return Status::kOpen;
}

// body_ ends with the first bracket of depth 2. True if what precedes it is {"name": "...", "arguments": {
bool ToolCallReader::announce(News& news) {
  Cursor cursor{body_};
  if (!cursor.take('{') || cursor.take_string() != "\"name\"" || !cursor.take(':')) return false;
  const std::string_view name = cursor.take_string();
  if (name.empty() || !cursor.take(',') || cursor.take_string() != "\"arguments\"" || !cursor.take(':')) return false;
  if (!cursor.take('{')) return false;
  news.name = name_in(name);
  if (!news.name) return false;
  news.arguments += '{';
  return true;
}

// body_ is a whole object.
bool ToolCallReader::take_whole(News& news) {
  try {
    const Json call = parse_json(body_, "tool call");
    const char* key = call.contains("arguments") ? "arguments" : "parameters";
    const Json arguments = call.value(key, Json());
    std::string_view written;
    Cursor cursor{body_};
    cursor.take('{');
    while (written.empty()) {  // members, up to the arguments; the text is valid JSON
      const std::string_view name = cursor.take_string();
      if (name.empty() || !cursor.take(':')) break;
      const std::string_view value = cursor.take_value();
      if (name_in(name) == key) written = value;
      if (!cursor.take(',')) break;
    }
    const auto text = arguments_in(arguments, written);
    if (!text || !call.contains("name") || !call["name"].is_string()) return false;
    auto name = call["name"].get<std::string>();
    if (name.empty() || name.size() > kMaxName) return false;
    news.name = std::move(name);
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

ToolCallReader::Status ToolCallReader::finish(News& news, bool named_is_call) {
  if (mode_ == Mode::kHead) {
    Cursor cursor{body_};
    if (named_is_call && cursor.take('{') && cursor.take_string() == "\"name\"" && cursor.take(':')) {
      news.name = name_in(cursor.take_string());
    }
    return news.name ? Status::kClosed : Status::kFailed;
  }
  if (mode_ == Mode::kRaw) news.arguments += tag_;
  return Status::kClosed;
}

}  // namespace ashlar::text
