// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lines that a person types: with editing and history on a terminal, plainly from a pipe.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace ashlar {

class LineReader {
 public:
  virtual ~LineReader() = default;

  enum class End { kNone, kInterrupted, kEof };
  struct Line {
    std::string text;      ///< without the newline; valid UTF-8 is up to the person
    End end = End::kNone;  ///< kInterrupted: Ctrl-C, the text is to be dropped; kEof: nothing more will come
  };
  /// Shows `prompt` and reads a line. A backslash at the end continues it on the next line.
  virtual Line read(const std::string& prompt) = 0;
};

/// Editing by libedit if standard input is a terminal, else plain. `history` is read at the start and written at the
/// end; empty: no history.
std::unique_ptr<LineReader> make_line_reader(const std::filesystem::path& history);

/// Where the history of a person is kept: $XDG_STATE_HOME/ashlar or ~/.local/state/ashlar; empty if there is no home.
std::filesystem::path default_history_file();

}  // namespace ashlar
