#pragma once
// Ctrl-C, or the SIGTERM of a scheduler whose time is up, as a wish to stop what is running, not as the end of the
// program.

namespace ashlar {

/// While one lives, the first of these signals sets requested() and a second one of its kind ends the program as usual.
/// One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested();
};

/// The exit code of a program that was ended so.
inline constexpr int kInterruptedExit = 130;

}  // namespace ashlar
