// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of a large cache take milliseconds, on a thread that requests wait for.

#include <cstdint>
#include <functional>
#include <utility>

namespace ashlar {

/// Says when a check is to stop: asks `wanted`, if there is one, every kPages pages, some 0.1 ms.
class Interruption {
 public:
  Interruption() = default;
  explicit Interruption(std::function<bool()> wanted) : wanted_(std::move(wanted)) {}

  /// To be called for each page.
  bool requested() { return ++calls_ % kPages == 0 && wanted_ && wanted_(); }

 private:
  static constexpr int64_t kPages = 1024;
  std::function<bool()> wanted_;
  int64_t calls_ = 0;
};

}  // namespace ashlar
