#pragma once
// The inside of one <tool_call>...</tool_call>, as it arrives.

#include <optional>
#include <string>
#include <string_view>

namespace ashlar::text {

/// Follows the brackets and strings of a JSON text byte by byte. It checks that brackets match and that nothing but
/// JSON's own characters stands outside strings; numbers and literals are not checked further.
class JsonOutline {
 public:
  enum class Status { kOpen, kDone, kBroken };
  /// The next byte. The text must be one object; after kDone or kBroken nothing more may be fed.
  Status feed(char c);
  size_t depth() const { return open_.size(); }

 private:
  std::string open_;  // closing brackets still expected, outermost first; at most kMaxDepth
  bool in_string_ = false;
  bool escaped_ = false;
};

/// Reads the text after <tool_call>. If the call's name comes before its arguments the arguments are handed on while
/// they arrive; otherwise all of it waits for the end of the object.
class ToolCallReader {
 public:
  enum class Status {
    kOpen,    ///< wants more
    kFailed,  ///< no call; body() is the text so far, to be shown as it is
    kClosed,  ///< the closing tag was read
  };
  struct News {
    std::optional<std::string> name;  ///< set once, when the call is known to be one
    std::string arguments;            ///< JSON text to append
  };

  Status feed(char c, News& news);
  /// The text ends. kFailed as above; kClosed: a call, complete or cut off. `named_is_call`: also one that has its name
  /// and no arguments yet.
  Status finish(News& news, bool named_is_call = false);
  const std::string& body() const { return body_; }
  /// The call's object has ended: only its closing tag may be missing.
  bool complete() const { return mode_ == Mode::kTail; }

 private:
  enum class Mode { kHead, kArguments, kRaw, kTail };
  Status feed_head(char c, News& news);
  Status feed_to_tag(char c, News& news);
  bool announce(News& news);
  bool take_whole(News& news);

  Mode mode_ = Mode::kHead;
  JsonOutline outline_;
  bool may_stream_ = true;
  std::string body_;  // kHead: everything so far
  std::string tag_;   // kRaw, kTail: the beginning of </tool_call>
};

}  // namespace ashlar::text
