// SPDX-License-Identifier: Apache-2.0
#pragma once
// One function call, as it arrives: the inside of <tool_call>...</tool_call>, or a bare one.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ashlar::text {

/// Follows the brackets and strings of a JSON text byte by byte. It checks that brackets match and that nothing but
/// JSON's own characters stands outside strings; numbers and literals are not checked further.
class JsonOutline {
 public:
  enum class Status { kOpen, kDone, kBroken };
  /// The next byte. The text must be one object; after kDone or kBroken nothing more may be fed.
  Status feed(char c);
  size_t depth() const { return open_.size(); }
  bool in_string() const { return in_string_; }

 private:
  std::string open_;  // closing brackets still expected, outermost first; at most kMaxDepth
  bool in_string_ = false;
  bool escaped_ = false;
};

/// Reads one call, an object of a name and arguments, after white space. If the name comes before the arguments these
/// are handed on while they arrive; otherwise all of it waits for the end of the object. Arguments are an object, a
/// string that holds one, or null or absent, which is {}; other members of the object are its own and dropped. A bare
/// call names one of `tools`. What cannot become a call fails as soon as that is known.
class ToolCallReader {
 public:
  enum class Status {
    kOpen,    ///< wants more
    kFailed,  ///< no call; body() is the text so far, to be shown as it is
    kClosed,  ///< the call's last bracket was read
    kPassed,  ///< the call has ended before: body() is text after it, the newest byte included
    kBroken,  ///< the newest byte cannot stand in arguments that have been handed on, or they were cut off
  };
  struct News {
    std::optional<std::string> name;  ///< set once, when the call is known to be one
    std::string arguments;            ///< JSON text to append
  };

  /// `tools`: of a bare call; else empty.
  explicit ToolCallReader(std::vector<std::string> tools) : tools_(std::move(tools)) {}

  /// After any status but kOpen nothing more may be fed.
  Status feed(char c, News& news);
  /// The text ends. `named_is_call`: also what has its name and no arguments yet, which is kBroken then.
  Status finish(News& news, bool named_is_call = false);
  const std::string& body() const { return body_; }
  /// The arguments have ended.
  bool complete() const { return mode_ == Mode::kTail; }

 private:
  enum class Mode { kHead, kArguments, kTail };
  enum class Place { kObject, kKey, kColon, kValue, kRest };  // what comes next; kRest: more of a value, or a comma
  Status feed_head(char c, News& news);
  Status feed_tail(char c);
  bool follow(char c);
  bool end_key();
  bool end_name();
  bool end_member();
  bool take_whole(News& news);
  void begin_tail();

  Mode mode_ = Mode::kHead;
  JsonOutline outline_;
  const std::vector<std::string> tools_;
  std::string body_;  // kHead: everything so far; kTail: what is after the arguments and the members after them
  Place place_ = Place::kObject;
  bool quoted_ = false;           // in a string
  size_t quote_ = 0, value_ = 0;  // where in body_ the newest string and the arguments begin
  std::string key_, written_;     // the newest key; the arguments, if they are an object
  std::optional<std::string> name_;
};

}  // namespace ashlar::text
