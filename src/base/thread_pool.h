// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workers for the loops of a CPU device: short parallel loops, one after the other, microseconds each.

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/machine/cores.h"

namespace ashlar {

/// A pool whose caller is worker 0. Each loop gives every worker a contiguous share; who is done steals from the far
/// end of the others' shares, so a worker that lost its core to another process delays only the item it holds.
/// The caller returns when all items are done, not when all workers have noticed the loop.
///
/// Workers spin a bounded time for the next loop, then sleep on a futex. They are pinned, one to each core before a
/// core gets a second one, if there are at least as many hardware threads as workers. The caller is never pinned
/// (threads it starts later would inherit that); if it turns up on a worker's core, that worker moves to the core left
/// over, since no balancer would part a pinned thread and a running one.
///
/// One loop at a time: run() must not be called by two threads at once, nor from inside a loop. A task that throws
/// terminates, except in run_throwing().
class ThreadPool {
 public:
  /// `workers` counts the caller; 0 means usable_cores().workers().
  explicit ThreadPool(int32_t workers = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t size() const { return size_; }

  /// Where a worker's share of n items begins; it ends where the next worker's begins. Others may steal from it.
  int32_t first_of_share(int32_t n, int32_t worker) const { return static_cast<int32_t>(int64_t{n} * worker / size_); }

  /// Calls fn(item, worker) for every item in [0, n) and returns when all calls have returned. Does not allocate.
  template <class Fn>
  void run(int32_t n, Fn&& fn) {
    using Plain = std::remove_reference_t<Fn>;
    run_items(
        n, [](void* context, int32_t item, int32_t worker) noexcept { (*static_cast<Plain*>(context))(item, worker); },
        const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

  /// Calls fn(item) for every item in [0, n), for what may throw: others may still run, and one of their exceptions is
  /// thrown on.
  template <class Fn>
  void run_throwing(int32_t n, const Fn& fn) {
    std::atomic<bool> failed = false;
    std::exception_ptr failure;
    run(n, [&](int32_t item, int32_t) {
      try {
        fn(item);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    });
    if (failed) std::rethrow_exception(failure);
  }

 private:
  using Task = void (*)(void* context, int32_t item, int32_t worker);

  /// Bytes between what different threads write: with a line, hardware fetches the one next to it.
  static constexpr size_t kApart = 256;

  /// A worker's part of a loop: all it needs to begin, in one cache line, which it watches while it spins.
  struct alignas(kApart) Share {
    /// What is left, in one word so that claims are one compare-and-swap: epoch << 32 | begin << 16 | end. A claim of
    /// an earlier loop fails on the epoch.
    std::atomic<uint64_t> word{0};
    // Written before `word`; read by the thread that has claimed an item of it, and unchanged until that item is done.
    Task task = nullptr;
    void* context = nullptr;
  };

  void run_items(int32_t n, Task task, void* context);
  void run_loop(int32_t n, Task task, void* context);
  void work(uint32_t epoch, int32_t worker);
  void worker_main(int32_t worker);
  void clear_core_of_caller();
  uint32_t await_epoch(uint32_t seen, int32_t worker);
  void await_done();

  int32_t size_ = 1;
  int32_t spins_ = 0;  ///< pauses before sleeping; 0 if the cores are oversubscribed
  /// Where each worker is pinned; [0] is left to the caller. Empty if nothing is pinned.
  std::vector<Cpu> cpus_;
  std::vector<int> core_of_;  ///< by CPU, -1 if it may not be used
  std::vector<Share> shares_;
  std::vector<std::thread> threads_;

  alignas(kApart) std::atomic<uint32_t> epoch_{0};
  std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  alignas(kApart) std::atomic<uint32_t> remaining_{0};
  std::atomic<uint32_t> caller_sleeps_{0};
};

}  // namespace ashlar
