#include "text/output_parser.h"

#include <algorithm>
#include <utility>

#include "text/call_form.h"

namespace ashlar::text {
namespace {

constexpr std::string_view kThink = OutputParser::kTags[0];
constexpr std::string_view kEndThink = OutputParser::kTags[1];
constexpr std::string_view kCallTag = OutputParser::kTags[2];

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Where the white space that ends at `end` begins, at most kMaxSpace bytes before.
size_t space_begin(std::string_view text, size_t end) {
  const size_t low = end - std::min(end, OutputParser::kMaxSpace);
  while (end > low && is_space(text[end - 1])) --end;
  return end;
}

/// Bytes at the end of `text` that may turn out to be `tag`, or white space before it.
size_t undecided(std::string_view text, std::string_view tag) {
  size_t length = std::min(text.size(), tag.size() - 1);
  while (!tag.starts_with(text.substr(text.size() - length))) --length;
  return text.size() - space_begin(text, text.size() - length);
}

void append(OutputParser::Parts& parts, OutputParser::Part part) {
  const bool continues = !parts.empty() && parts.back().kind == part.kind && parts.back().call == part.call;
  if (continues) {
    parts.back().text += part.text;
  } else {
    parts.push_back(std::move(part));
  }
}

void append_some(OutputParser::Parts& parts, OutputParser::Kind kind, std::string text) {
  if (!text.empty()) append(parts, {kind, std::move(text)});
}

}  // namespace

void OutputParser::append_content(Parts& parts, std::string text) const {
  append(parts, {Kind::kContent, options_.only_calls ? std::string() : std::move(text)});
}

OutputParser::OutputParser(Options options) : options_(std::move(options)) {
  if (!options_.reasoning) state_ = State::kContent;
}

bool OutputParser::expects(std::string_view tag) const {
  if (tag == kThink) return state_ == State::kStart;
  if (tag == kEndThink) return state_ == State::kStart || state_ == State::kReasoning;
  if (bare()) return false;
  if (tag == kCallTag) return options_.tool_calls && !in_reasoning() && state_ != State::kCall;
  return state_ == State::kCall;
}

OutputParser::Parts OutputParser::push(std::string_view text) {
  Parts parts;
  buffer_ += text;
  while (step(parts)) {
  }
  return parts;
}

bool OutputParser::step(Parts& parts) {
  switch (state_) {
    case State::kStart:
      return step_start();
    case State::kReasoning:
      return step_reasoning(parts);
    case State::kContent:
      return step_content(parts);
    case State::kCall:
      return step_call(parts);
  }
  return false;
}

bool OutputParser::step_start() {
  const size_t begin = std::find_if_not(buffer_.begin(), buffer_.end(), is_space) - buffer_.begin();
  const std::string_view rest = std::string_view(buffer_).substr(begin);
  if (begin <= kMaxSpace) {
    if (rest.size() < kThink.size() && kThink.starts_with(rest)) return false;
    if (rest.starts_with(kThink)) {
      buffer_.erase(0, begin + kThink.size());
      state_ = State::kReasoning;
      trimming_ = true;
      return true;
    }
  }
  state_ = options_.starts_in_reasoning ? State::kReasoning : State::kContent;
  trimming_ = options_.starts_in_reasoning;
  return true;
}

// Drops white space after a tag. False if no other text has come yet.
bool OutputParser::trim() {
  if (!trimming_) return true;
  buffer_.erase(buffer_.begin(), std::find_if_not(buffer_.begin(), buffer_.end(), is_space));
  trimming_ = buffer_.empty();
  return !trimming_;
}

bool OutputParser::step_reasoning(Parts& parts) {
  if (!trim()) return false;
  const size_t found = buffer_.find(kEndThink);
  if (found == std::string::npos) {
    const size_t sure = buffer_.size() - undecided(buffer_, kEndThink);
    append_some(parts, Kind::kReasoning, buffer_.substr(0, sure));
    buffer_.erase(0, sure);
    return false;
  }
  append(parts, {Kind::kReasoning, buffer_.substr(0, space_begin(buffer_, found))});
  buffer_.erase(0, found + kEndThink.size());
  state_ = State::kContent;
  trimming_ = true;
  return true;
}

bool OutputParser::step_content(Parts& parts) {
  if (!trim()) return false;
  if (options_.tool_calls && bare()) return step_bare(parts);
  const size_t found = options_.tool_calls ? buffer_.find(kCallTag) : std::string::npos;
  if (found == std::string::npos) {
    const size_t sure = buffer_.size() - (options_.tool_calls ? undecided(buffer_, kCallTag) : 0);
    if (sure > 0) append_content(parts, buffer_.substr(0, sure));
    buffer_.erase(0, sure);
    return false;
  }
  const size_t end = space_begin(buffer_, found);
  if (end > 0) append_content(parts, buffer_.substr(0, end));
  before_call_ = buffer_.substr(end, found - end);
  buffer_.erase(0, found + kCallTag.size());
  state_ = State::kCall;
  call_.emplace(options_.bare);
  return true;
}

bool OutputParser::step_bare(Parts& parts) {
  std::string_view rest = buffer_;
  const auto skip = [&](const char* bytes) {
    rest.remove_prefix(std::min(rest.find_first_not_of(bytes), rest.size()));
  };
  skip(calls_ > 0 ? " \t\n\r;" : " \t\n\r");
  bool open = rest.size() < kPythonTag.size() && kPythonTag.starts_with(rest);
  if (rest.starts_with(kPythonTag)) {
    rest.remove_prefix(kPythonTag.size());
    skip(" \t\n\r");
    open = rest.empty();
  }
  const size_t at = buffer_.size() - rest.size();
  may_call_ = may_call_ && at <= kMaxSpace && (open || rest.front() == '{');
  if (!may_call_ && !buffer_.empty()) append_content(parts, std::exchange(buffer_, {}));
  if (!may_call_ || open) return false;
  before_call_ = buffer_.substr(0, at);
  buffer_.erase(0, at);
  state_ = State::kCall;
  call_.emplace(options_.bare);
  return true;
}

void OutputParser::take_news(ToolCallReader::News& news, Parts& parts) {
  if (!news.name && news.arguments.empty()) return;
  if (news.name) ++calls_;
  append(parts, {Kind::kCall, std::move(news.arguments), calls_ - 1, news.name.value_or("")});
}

void OutputParser::fail_call(Parts& parts) {
  append_content(parts, before_call_ + std::string(bare() ? "" : kCallTag));
  buffer_.insert(0, call_->body());
  may_call_ = false;
  call_.reset();
  state_ = State::kContent;
}

bool OutputParser::step_call(Parts& parts) {
  ToolCallReader::News news;
  auto status = ToolCallReader::Status::kOpen;
  size_t used = 0;
  while (used < buffer_.size() && status == ToolCallReader::Status::kOpen) status = call_->feed(buffer_[used++], news);
  if (status == ToolCallReader::Status::kPassed) --used;
  buffer_.erase(0, used);
  take_news(news, parts);
  if (status == ToolCallReader::Status::kFailed) {
    fail_call(parts);
  } else if (status != ToolCallReader::Status::kOpen) {
    append(parts, {Kind::kCall, "", calls_ - 1});
    call_.reset();
    state_ = State::kContent;
    trimming_ = true;
  }
  return status != ToolCallReader::Status::kOpen;
}

OutputParser::Parts OutputParser::finish() {
  Parts parts;
  if (state_ == State::kCall) {
    ToolCallReader::News news;
    if (call_->finish(news, options_.only_calls) == ToolCallReader::Status::kFailed) {
      fail_call(parts);
    } else {
      cut_call_ = !call_->complete();
      take_news(news, parts);
      append(parts, {Kind::kCall, "", calls_ - 1});
    }
  }
  const bool in_call = state_ == State::kCall;
  if (in_call) return parts;
  std::string rest = std::exchange(buffer_, {});
  if (in_reasoning()) {
    append(parts, {Kind::kReasoning, std::move(rest)});
  } else {
    append_content(parts, std::move(rest));
  }
  return parts;
}

}  // namespace ashlar::text
