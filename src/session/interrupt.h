// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ctrl-C as a wish to stop what is running, not as the end of the program; where asked for, the SIGTERM of a scheduler
// whose time is up likewise.

#include <cstdint>

namespace ashlar {

/// While one lives, the first such signal sets requested() and a second one of its kind ends the program as usual. One
/// at a time; requested() keeps its value until the next.
class InterruptScope {
 public:
  /// Signals that are wishes. Who takes SIGTERM as one must end the program soon after it.
  enum class Signals : uint8_t { kInterrupt, kInterruptAndTerminate };
  explicit InterruptScope(Signals signals = Signals::kInterrupt);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested();

 private:
  const Signals signals_;
};

/// The exit code of a program that was ended so.
inline constexpr int kInterruptedExit = 130;

}  // namespace ashlar
