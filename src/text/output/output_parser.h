// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text of an answer, taken apart while it arrives: reasoning, content, function calls.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/tool_call_reader.h"

namespace ashlar::text {

/// Splits <think>...</think> at the start of an answer and Hermes calls, <tool_call>{"name", "arguments"}</tool_call>,
/// from its content. What comes out, put together, does not depend on how the text was cut into parts, and neither does
/// its order. Nothing is lost: what looks like a call and is none stays content, unchanged, and so does text between
/// the tags of a call that is no call itself; further calls there follow a call or begin a line. A call whose name and
/// first bracket of the arguments have been read stays a call: its arguments are what the model wrote, JSON or not.
/// White space around a tag, at most kMaxSpace bytes before it, belongs to the tag; between content before and after
/// calls the widest of it stays, most lines first. A bare call stands where the content begins, or after another one
/// and ';' or white space; kPythonTag before it belongs to it, too. Not thread-safe.
class OutputParser {
 public:
  struct Options {
    bool reasoning = true;             ///< look for <think>
    bool starts_in_reasoning = false;  ///< the prompt ended with <think>
    bool tool_calls = true;            ///< look for <tool_call>
    /// A grammar lets nothing but calls through: there is no content, and a call that ends before its arguments is one
    /// without, if it has its name.
    bool only_calls = false;
    std::vector<std::string> bare = {};  ///< look for bare calls of these functions instead
  };
  enum class Kind : uint8_t { kReasoning, kContent, kCall };
  /// The next piece of the answer. One without text says that what was read last belongs to its kind: reasoning and
  /// calls end with a tag, and the answer in the middle of anything.
  struct Part {
    Kind kind = Kind::kContent;
    std::string text;       ///< of a call: JSON text to append to its arguments
    int32_t call = -1;      ///< which one of the answer
    std::string name = {};  ///< of the call, in its first part only
  };
  using Parts = std::vector<Part>;  ///< in the order of the answer; neighbours differ in kind or call
  static constexpr size_t kMaxSpace = 64;

  explicit OutputParser(Options options);

  /// The next part of the text; returns what later text cannot change.
  Parts push(std::string_view text);
  /// The end of the text: what was held back. Nothing may be pushed afterwards.
  Parts finish();

  int32_t calls() const { return calls_; }     ///< function calls begun so far
  bool cut_call() const { return cut_call_; }  ///< after finish(): the last call ended in the midst of its arguments

  /// The tags that it looks for.
  static constexpr std::string_view kTags[] = {"<think>", "</think>", "<tool_call>", "</tool_call>"};
  /// Whether `tag`, if it came next, would be taken for a tag. For models whose tags are special tokens, which are no
  /// text elsewhere.
  bool expects(std::string_view tag) const;

 private:
  enum class State { kStart, kReasoning, kContent, kCall, kBroken };  // kBroken: in arguments that are not JSON
  struct Mark {
    size_t at, size;
  };
  // Each takes from buffer_ what it can; false: wants more text.
  bool step(Parts& parts);
  bool step_start();
  bool step_reasoning(Parts& parts);
  bool step_content(Parts& parts);
  bool step_bare(Parts& parts);
  bool step_call(Parts& parts);
  bool step_broken(Parts& parts);
  Mark next_mark() const;
  void fail_call(Parts& parts);
  void end_call(std::string_view rest, Parts& parts);
  void finish_call(Parts& parts);
  void append_content(Parts& parts, std::string text);
  void take_content(size_t n, Parts& parts);
  void widen_gap(std::string_view space);
  void take_news(ToolCallReader::News& news, Parts& parts);
  bool trim();
  bool bare() const { return !options_.bare.empty(); }
  bool in_reasoning() const {
    return state_ == State::kReasoning || (state_ == State::kStart && options_.starts_in_reasoning);
  }

  Options options_;
  State state_ = State::kStart;
  std::string buffer_;     // text not yet decided
  bool trimming_ = false;  // white space at the front of buffer_ belongs to the tag before it
  std::string trimmed_;    // of it, the first kMaxSpace bytes
  std::string gap_;        // white space that content after a call begins with, if there was content before
  bool has_content_ = false;
  bool may_call_ = true;       // a bare call may stand at the front of buffer_
  bool in_tag_ = false;        // between the tags of a call
  bool tag_has_call_ = false;  // a call has come since the first of them
  bool begins_line_ = false;   // white space alone stands between buffer_ and the beginning of its line, or a call
  std::string before_call_;    // white space and the like
  std::optional<ToolCallReader> call_;
  int32_t calls_ = 0;
  bool cut_call_ = false;
};

}  // namespace ashlar::text
