// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for work that would hold up the engine's steps, such as long masks.

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/wake_signal.h"

namespace ashlar {

/// Work that is done in slices of about a millisecond.
class SlicedTask {
 public:
  virtual ~SlicedTask() = default;
  /// Does a slice; true: nothing is left to do, or it is not wanted any more.
  virtual bool run_slice() noexcept = 0;
  /// It was the last one, and the task may be posted again.
  virtual void on_done() noexcept = 0;

 private:
  friend class MaskWorkers;
  std::shared_ptr<SlicedTask> self_;  // while it is on the way to the workers
  SlicedTask* next_ = nullptr;
  const void* group_ = nullptr;
};

/// Groups take turns of one slice each; within a group the tasks run one after the other, never two at once. The
/// threads leave the cores to others where these have work.
class MaskWorkers {
 public:
  explicit MaskWorkers(int threads = usual_threads());
  /// A quarter of the machine's, 4 at most.
  static int usual_threads();
  /// Waits for the slices that are running; what else was posted is dropped without on_done().
  ~MaskWorkers();
  MaskWorkers(const MaskWorkers&) = delete;
  MaskWorkers& operator=(const MaskWorkers&) = delete;

  /// Takes a task that is not posted yet. Waits for no lock: a thread that holds one may have been made to wait for the
  /// caller itself.
  void post(std::shared_ptr<SlicedTask> task, const void* group) noexcept;

 private:
  struct Group {
    const void* key;
    std::deque<std::shared_ptr<SlicedTask>> tasks;
    bool is_running = false;
  };
  void work();
  void run_turn(std::unique_lock<std::mutex>& lock, std::list<Group>::iterator group);
  void take_posted();
  void sort_in(SlicedTask* task);

  std::atomic<SlicedTask*> posted_ = nullptr;  // newest first
  WakeSignal news_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;               // guards what follows
  SlicedTask* arrived_ = nullptr;  // oldest first
  std::list<Group> groups_;        // by turn; none is empty
  std::vector<std::thread> threads_;
};

}  // namespace ashlar
