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

/// Reads the text after <tool_call>, or a bare call from its first bracket on. If the call's name comes before its
/// arguments the arguments are handed on while they arrive; otherwise all of it waits for the end of the object. A bare
/// call names one of `tools` and has an object for its arguments; what cannot become one fails as soon as that is
/// known.
class ToolCallReader {
 public:
  enum class Status {
    kOpen,    ///< wants more
    kFailed,  ///< no call; body() is the text so far, to be shown as it is
    kClosed,  ///< the closing tag was read; of a bare call its last bracket
    kPassed,  ///< a bare call had ended before this byte
  };
  struct News {
    std::optional<std::string> name;  ///< set once, when the call is known to be one
    std::string arguments;            ///< JSON text to append
  };

  /// `tools`: of a bare call; else empty.
  explicit ToolCallReader(std::vector<std::string> tools) : tools_(std::move(tools)), bare_(!tools_.empty()) {}

  Status feed(char c, News& news);
  /// The text ends. kFailed as above; kClosed: a call, complete or cut off. `named_is_call`: also one that has its name
  /// and no arguments yet.
  Status finish(News& news, bool named_is_call = false);
  const std::string& body() const { return body_; }
  /// The call's object has ended: only its closing tag may be missing.
  bool complete() const { return mode_ == Mode::kTail; }

 private:
  enum class Mode { kHead, kArguments, kRaw, kTail };
  enum class Place { kObject, kKey, kColon, kValue, kRest };  // what comes next; kRest: more of a value, or a comma
  Status feed_head(char c, News& news);
  Status feed_to_tag(char c, News& news);
  Status feed_tail(char c, News& news);
  bool follow(char c);
  bool end_key();
  bool end_name();
  bool take_whole(News& news);

  Mode mode_ = Mode::kHead;
  JsonOutline outline_;
  const std::vector<std::string> tools_;
  const bool bare_;
  std::string body_;  // kHead: everything so far, and where in its object that has led to:
  Place place_ = Place::kObject;
  bool followed_ = true;          // it may be a call
  bool quoted_ = false;           // in a string
  size_t quote_ = 0, value_ = 0;  // where in body_ the newest string and the newest arguments begin
  std::string key_, written_;     // the newest key; the arguments, if they are an object
  std::optional<std::string> name_;
  std::string tag_;  // kRaw, kTail: the beginning of </tool_call>
};

}  // namespace ashlar::text
