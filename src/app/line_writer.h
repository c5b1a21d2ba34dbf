// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lines to a descriptor that may be full: a thread of its own writes them, and no other waits.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace ashlar {

/// Thread-safe. Lines come out whole and in the order in which they were added.
class LineWriter {
 public:
  static constexpr size_t kMaxQueued = size_t{4} << 20;

  /// `fd` stays open as long as this lives.
  explicit LineWriter(int fd);
  /// Writes what is queued, for as long as somebody takes it.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// Queues a line with its end, and never blocks. False, and the line is lost, where kMaxQueued bytes wait.
  bool add(const std::string& line);
  /// Whether much more could be queued.
  bool has_room() const;
  /// Waits until all is written, or nothing could be for `patience`.
  void flush(std::chrono::milliseconds patience);

 private:
  struct State;
  const std::shared_ptr<State> state_;  ///< the thread's too, which may be stuck in a write at the end
};

}  // namespace ashlar
