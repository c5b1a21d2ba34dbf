#pragma once
// Ctrl-C as a wish to stop what is running, not as the end of the program.

namespace ashlar {

/// While one lives, the first Ctrl-C sets requested() and the second one ends the program as usual. One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested();
};

/// The exit code of a program that Ctrl-C ended.
inline constexpr int kInterruptedExit = 130;

}  // namespace ashlar
