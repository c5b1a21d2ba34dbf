// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ctrl-C and a changed size of the window while a line is typed.

#include <csignal>

namespace ashlar {

/// While one lives, SIGINT and SIGWINCH are events of wait(), whichever thread the system gave them to. One at a time.
class LineSignals {
 public:
  LineSignals();
  ~LineSignals();
  LineSignals(const LineSignals&) = delete;
  LineSignals& operator=(const LineSignals&) = delete;

  enum class Event { kInput, kInterrupt, kResize };
  /// Waits for input on `fd`, its end included, or for a signal. kInterrupt stays: it is the answer from then on.
  Event wait(int fd) const;
  static bool interrupted();

 private:
  struct sigaction old_interrupt_ {
  }, old_resize_{};
};

}  // namespace ashlar
