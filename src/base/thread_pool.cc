// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar {
namespace {

constexpr int32_t kMaxItems = 0xFFFF;  // begin and end have 16 bits each
// One pause is 40-140 cycles on current cores, so this is roughly 40-140 us: longer than the caller's serial work
// between two loops of a forward pass, short enough to give the core back soon when the engine idles.
constexpr int32_t kSpins = 3000;

uint64_t pack(uint32_t epoch, uint32_t begin, uint32_t end) {
  return static_cast<uint64_t>(epoch) << 32 | static_cast<uint64_t>(begin) << 16 | end;
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// Best effort: a pool that could not be pinned is slower, not wrong.
void pin(std::thread& thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

enum class End { kFront, kBack };

// Takes one item off a share of loop `epoch`, or returns -1. Owners take from the front, thieves from the back.
int32_t claim(std::atomic<uint64_t>& share, uint32_t epoch, End from) {
  uint64_t word = share.load(std::memory_order_acquire);
  for (;;) {
    const uint32_t begin = (word >> 16) & 0xFFFF;
    const uint32_t end = word & 0xFFFF;
    if (static_cast<uint32_t>(word >> 32) != epoch || begin >= end) return -1;
    const uint64_t next = from == End::kFront ? pack(epoch, begin + 1, end) : pack(epoch, begin, end - 1);
    if (share.compare_exchange_weak(word, next, std::memory_order_acquire)) {
      return static_cast<int32_t>(from == End::kFront ? begin : end - 1);
    }
  }
}

}  // namespace

ThreadPool::ThreadPool(int32_t workers) {
  if (workers == 1) {
    shares_ = std::vector<Share>(1);
    return;
  }
  const Cores usable = usable_cores();
  size_ = workers > 0 ? workers : usable.workers();
  const bool enough = size_ <= static_cast<int32_t>(usable.cpus.size());
  spins_ = enough ? kSpins : 0;
  shares_ = std::vector<Share>(static_cast<size_t>(size_));
  if (enough && size_ > 1) {
    for (const Cpu& cpu : usable.cpus) {
      if (cpus_.size() < static_cast<size_t>(size_)) cpus_.push_back(cpu);
      if (core_of_.size() <= static_cast<size_t>(cpu.id)) core_of_.resize(static_cast<size_t>(cpu.id) + 1, -1);
      core_of_[static_cast<size_t>(cpu.id)] = cpu.core;
    }
  }
  for (int32_t worker = 1; worker < size_; ++worker) {
    threads_.emplace_back([this, worker] { worker_main(worker); });
    if (!cpus_.empty()) pin(threads_.back(), cpus_[static_cast<size_t>(worker)].id);
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  const uint32_t epoch = epoch_.fetch_add(1) + 1;
  for (Share& share : shares_) share.word.store(pack(epoch, 0, 0), std::memory_order_release);
  futex_wake(epoch_, size_);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_items(int32_t n, Task task, void* context) {
  if (size_ == 1 || n <= 1) {
    for (int32_t item = 0; item < n; ++item) task(context, item, 0);
    return;
  }
  if (n <= kMaxItems) return run_loop(n, task, context);
  struct Slice {
    Task task;
    void* context;
    int32_t first;
  };
  for (int32_t first = 0; first < n; first += kMaxItems) {
    Slice slice{task, context, first};
    run_loop(
        std::min(kMaxItems, n - first),
        [](void* self, int32_t item, int32_t worker) {
          const Slice& s = *static_cast<Slice*>(self);
          s.task(s.context, s.first + item, worker);
        },
        &slice);
  }
}

// On a worker's hardware thread, or on another one of its core.
void ThreadPool::clear_core_of_caller() {
  if (cpus_.empty()) return;
  const int cpu = sched_getcpu();
  if (cpu == cpus_[0].id || cpu < 0 || static_cast<size_t>(cpu) >= core_of_.size()) return;
  const int core = core_of_[static_cast<size_t>(cpu)];
  if (core == cpus_[0].core) return;
  for (size_t worker = 1; worker < cpus_.size(); ++worker) {
    if (cpus_[worker].core != core) continue;
    std::swap(cpus_[0], cpus_[worker]);
    pin(threads_[worker - 1], cpus_[worker].id);
    return;
  }
}

void ThreadPool::run_loop(int32_t n, Task task, void* context) {
  clear_core_of_caller();
  remaining_.store(static_cast<uint32_t>(n), std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  for (int32_t worker = size_ - 1; worker >= 0; --worker) {
    const auto begin = static_cast<uint32_t>(first_of_share(n, worker));
    const auto end = static_cast<uint32_t>(first_of_share(n, worker + 1));
    Share& share = shares_[static_cast<size_t>(worker)];
    share.task = task;
    share.context = context;
    share.word.store(pack(epoch, begin, end), std::memory_order_release);
  }
  // A thread that spins has seen its share by now; this is for sleepers. Sequentially consistent against sleepers_:
  // either we see the sleeper, or it sees the new epoch.
  epoch_.store(epoch);
  if (sleepers_.load() > 0) futex_wake(epoch_, size_);
  work(epoch, 0);
  await_done();
}

void ThreadPool::work(uint32_t epoch, int32_t worker) {
  uint32_t finished = 0;
  for (int32_t i = 0; i < size_; ++i) {
    const int32_t victim = (worker + i) % size_;
    for (;;) {
      Share& share = shares_[static_cast<size_t>(victim)];
      const int32_t item = claim(share.word, epoch, i == 0 ? End::kFront : End::kBack);
      if (item < 0) break;
      share.task(share.context, item, worker);
      ++finished;
    }
  }
  if (finished == 0) return;
  // After the last subtraction the loop, and everything it points to, may be gone.
  if (remaining_.fetch_sub(finished) == finished && worker != 0 && caller_sleeps_.load() != 0)
    futex_wake(remaining_, 1);
}

void ThreadPool::await_done() {
  for (int32_t spin = 0; spin < spins_; ++spin) {
    if (remaining_.load(std::memory_order_acquire) == 0) return;
    _mm_pause();
  }
  caller_sleeps_.store(1);
  for (;;) {
    const uint32_t remaining = remaining_.load();
    if (remaining == 0) break;
    futex_wait(remaining_, remaining);
  }
  caller_sleeps_.store(0);
}

uint32_t ThreadPool::await_epoch(uint32_t seen, int32_t worker) {
  const std::atomic<uint64_t>& word = shares_[static_cast<size_t>(worker)].word;
  for (int32_t spin = 0; spin < spins_; ++spin) {
    const auto epoch = static_cast<uint32_t>(word.load(std::memory_order_acquire) >> 32);
    if (epoch != seen) return epoch;
    _mm_pause();
  }
  sleepers_.fetch_add(1);
  while (epoch_.load() == seen) futex_wait(epoch_, seen);
  sleepers_.fetch_sub(1);
  return epoch_.load(std::memory_order_acquire);
}

void ThreadPool::worker_main(int32_t worker) {
  uint32_t epoch = 0;
  for (;;) {
    epoch = await_epoch(epoch, worker);
    if (stop_.load(std::memory_order_relaxed)) return;
    work(epoch, worker);
  }
}

}  // namespace ashlar
