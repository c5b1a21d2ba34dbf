// SPDX-License-Identifier: Apache-2.0
#pragma once
// Another program that works for this one, in the background, and never longer than it lives.

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ashlar {

/// It runs in a process group of its own at the lowest priority, is the first to end where memory is short, reads
/// nothing, has no file of this program, and is killed when the thread that made it ends. Not thread-safe.
class ChildProcess {
 public:
  /// What it wrote to its standard output is kept up to this many bytes; lines of its standard error are cut there.
  static constexpr size_t kMaxOutput = size_t{64} << 10, kLongestLine = 1000;
  struct Exit {
    int code = 0;    ///< 127: it could not be run, or somebody else waited for its end
    int signal = 0;  ///< that ended it; 0: none did
    bool operator==(const Exit&) const = default;
  };

  /// Runs `command`, whose first part is the program's path. `on_line` gets what it writes to its standard error, line
  /// by line, on a thread of its own. Throws Error("process", ...) if the system has no room for another one.
  ChildProcess(std::vector<std::string> command, std::function<void(const std::string&)> on_line);
  /// Kills it, stopped or not, and whatever it started, and waits for its end.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Takes all processors from it, at once.
  void pause();
  void resume();
  /// How it ended, once it has.
  std::optional<Exit> poll();
  /// What it wrote to its standard output. Only after its end.
  std::string output();
  pid_t id() const { return id_; }

 private:
  void read(int out, int lines) noexcept;
  int end();

  const std::function<void(const std::string&)> on_line_;
  pid_t id_ = -1;
  std::optional<Exit> exit_;
  std::string output_;  // the reader's until it ends
  std::thread reader_;
};

}  // namespace ashlar
