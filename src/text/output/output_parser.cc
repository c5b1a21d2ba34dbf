// SPDX-License-Identifier: Apache-2.0
#include "text/output/output_parser.h"

#include <algorithm>
#include <utility>

#include "text/output/call_form.h"

namespace ashlar::text {
namespace {

constexpr std::string_view kThink = OutputParser::kTags[0];
constexpr std::string_view kEndThink = OutputParser::kTags[1];
constexpr std::string_view kCallTag = OutputParser::kTags[2];
constexpr std::string_view kEndCall = OutputParser::kTags[3];

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

void OutputParser::append_content(Parts& parts, std::string text) {
  if (options_.only_calls) text.clear();
  if (!text.empty()) {
    const std::string gap = std::exchange(gap_, {});
    if (has_content_) text.insert(0, gap);
    has_content_ = true;
  }
  append(parts, {Kind::kContent, std::move(text)});
}

// Takes `n` bytes of buffer_ for content.
void OutputParser::take_content(size_t n, Parts& parts) {
  if (n == 0) return;
  for (size_t i = 0; i < n; ++i) begins_line_ = buffer_[i] == '\n' || (begins_line_ && is_space(buffer_[i]));
  append_content(parts, buffer_.substr(0, n));
  buffer_.erase(0, n);
}

// Content before a call and after it is kept apart by as much white space as stands on one side of the call.
void OutputParser::widen_gap(std::string_view space) {
  const auto lines = [](std::string_view text) { return std::count(text.begin(), text.end(), '\n'); };
  if (std::pair(lines(space), space.size()) > std::pair(lines(gap_), gap_.size())) gap_ = space;
}

OutputParser::OutputParser(Options options) : options_(std::move(options)) {
  if (!options_.reasoning) state_ = State::kContent;
}

bool OutputParser::expects(std::string_view tag) const {
  if (tag == kThink) return state_ == State::kStart;
  if (tag == kEndThink) return state_ == State::kStart || state_ == State::kReasoning;
  if (bare()) return false;
  const bool in_call = state_ == State::kBroken || (state_ == State::kCall && !call_->complete());
  if (tag == kCallTag) return options_.tool_calls && !in_reasoning() && !in_call;
  return state_ == State::kCall || state_ == State::kBroken || in_tag_;
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
    case State::kBroken:
      return step_broken(parts);
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

// Takes away white space after a tag. False if no other text has come yet.
bool OutputParser::trim() {
  if (!trimming_) return true;
  const size_t n = std::find_if_not(buffer_.begin(), buffer_.end(), is_space) - buffer_.begin();
  trimmed_.append(buffer_, 0, std::min(n, kMaxSpace - trimmed_.size()));
  buffer_.erase(0, n);
  trimming_ = buffer_.empty();
  if (!trimming_) widen_gap(std::exchange(trimmed_, {}));
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

// The next tag in buffer_, or between tags a bracket that begins a line or follows a call: where it stands, and its
// size; 0: there is none.
OutputParser::Mark OutputParser::next_mark() const {
  bool begins = begins_line_;
  for (size_t at = 0; at < buffer_.size(); ++at) {
    const char c = buffer_[at];
    const std::string_view rest = std::string_view(buffer_).substr(at);
    if (c == '<' && rest.starts_with(kCallTag)) return {at, kCallTag.size()};
    if (c == '<' && in_tag_ && rest.starts_with(kEndCall)) return {at, kEndCall.size()};
    if (c == '{' && in_tag_ && begins) return {at, 1};
    begins = c == '\n' || (begins && is_space(c));
  }
  return {buffer_.size(), 0};
}

bool OutputParser::step_content(Parts& parts) {
  if (!trim()) return false;
  if (!options_.tool_calls) {
    take_content(buffer_.size(), parts);
    return false;
  }
  if (bare()) return step_bare(parts);
  const auto [at, size] = next_mark();
  if (size == 0) {
    const size_t open = std::max(undecided(buffer_, kCallTag), in_tag_ ? undecided(buffer_, kEndCall) : 0);
    take_content(buffer_.size() - open, parts);
    return false;
  }
  if (size == kEndCall.size() && !tag_has_call_) {  // as the tag before it
    take_content(at + size, parts);
    in_tag_ = false;
    return true;
  }
  const size_t end = space_begin(buffer_, at);
  take_content(end, parts);
  const size_t used = at - end + (size > 1 ? size : 0);
  before_call_ = buffer_.substr(0, used);
  buffer_.erase(0, used);
  if (size == kEndCall.size()) {
    widen_gap(std::string_view(before_call_).substr(0, used - size));
    append(parts, {Kind::kCall, "", calls_ - 1});
    in_tag_ = false;
    trimming_ = true;
    return true;
  }
  if (size > 1) {
    in_tag_ = true;
    tag_has_call_ = false;
  }
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
  if (!may_call_) take_content(buffer_.size(), parts);
  if (!may_call_ || open) return false;
  before_call_ = buffer_.substr(0, at);
  buffer_.erase(0, at);
  state_ = State::kCall;
  call_.emplace(options_.bare);
  return true;
}

void OutputParser::take_news(ToolCallReader::News& news, Parts& parts) {
  if (!news.name && news.arguments.empty()) return;
  if (news.name) {
    ++calls_;
    tag_has_call_ = true;
    const std::string_view before = before_call_;
    widen_gap(before.substr(0, before.find_first_not_of(" \t\n\r")));
  }
  append(parts, {Kind::kCall, std::move(news.arguments), calls_ - 1, news.name.value_or("")});
}

void OutputParser::fail_call(Parts& parts) {
  append_content(parts, before_call_);
  buffer_.insert(0, call_->body());
  may_call_ = false;
  begins_line_ = false;  // or the same bracket would be tried again
  call_.reset();
  state_ = State::kContent;
}

// `rest`: text after the call that was read with it.
void OutputParser::end_call(std::string_view rest, Parts& parts) {
  append(parts, {Kind::kCall, "", calls_ - 1});
  buffer_.insert(0, rest);
  call_.reset();
  state_ = State::kContent;
  trimming_ = true;
  begins_line_ = true;
}

bool OutputParser::step_call(Parts& parts) {
  using Status = ToolCallReader::Status;
  ToolCallReader::News news;
  auto status = Status::kOpen;
  size_t used = 0;
  while (used < buffer_.size() && status == Status::kOpen) status = call_->feed(buffer_[used++], news);
  if (status == Status::kBroken) --used;
  buffer_.erase(0, used);
  take_news(news, parts);
  if (status == Status::kFailed) fail_call(parts);
  if (status == Status::kClosed) end_call({}, parts);
  if (status == Status::kPassed) end_call(std::string(call_->body()), parts);
  if (status == Status::kBroken) state_ = State::kBroken;
  return status != Status::kOpen;
}

// Whatever broke the arguments, they have been handed on: what is left follows as the model wrote it, up to the tag.
bool OutputParser::step_broken(Parts& parts) {
  const size_t found = bare() ? std::string::npos : buffer_.find(kEndCall);
  const bool ends = found != std::string::npos;
  const size_t end = ends     ? space_begin(buffer_, found)
                     : bare() ? buffer_.size()
                              : buffer_.size() - undecided(buffer_, kEndCall);
  if (end > 0) append(parts, {Kind::kCall, buffer_.substr(0, end), calls_ - 1});
  buffer_.erase(0, ends ? found + kEndCall.size() : end);
  if (!ends) return false;
  in_tag_ = false;
  end_call({}, parts);
  return true;
}

// The text ends within a call, or what might have become one.
void OutputParser::finish_call(Parts& parts) {
  ToolCallReader::News news;
  const auto status = call_->finish(news, options_.only_calls);
  take_news(news, parts);
  if (status == ToolCallReader::Status::kFailed) return fail_call(parts);
  if (status == ToolCallReader::Status::kPassed) return end_call(std::string(call_->body()), parts);
  state_ = State::kBroken;
}

OutputParser::Parts OutputParser::finish() {
  Parts parts;
  while (state_ == State::kCall) {
    finish_call(parts);
    while (step(parts)) {
    }
  }
  std::string rest = std::exchange(buffer_, {});
  if (state_ == State::kBroken) {
    cut_call_ = true;
    append(parts, {Kind::kCall, std::move(rest), calls_ - 1});
  } else if (in_reasoning()) {
    append(parts, {Kind::kReasoning, std::move(rest)});
  } else {
    append_content(parts, std::move(rest));
  }
  return parts;
}

}  // namespace ashlar::text
