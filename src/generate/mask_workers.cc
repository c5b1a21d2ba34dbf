// SPDX-License-Identifier: Apache-2.0
#include "generate/mask_workers.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace ashlar {
namespace {

// About a tenth of a core where others have work for all of it.
void give_way() {
#ifdef __linux__
  constexpr int kNice = 10;
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice));  // of this thread alone
#endif
}

}  // namespace

int MaskWorkers::usual_threads() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 4, 1, 4); }

MaskWorkers::MaskWorkers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

MaskWorkers::~MaskWorkers() {
  stop_ = true;
  news_.raise();
  for (std::thread& thread : threads_) thread.join();
  for (SlicedTask* list : {arrived_, posted_.load()}) {
    while (list != nullptr) {
      const std::shared_ptr<SlicedTask> dropped = std::move(list->self_);
      list = list->next_;
    }
  }
}

void MaskWorkers::post(std::shared_ptr<SlicedTask> task, const void* group) noexcept {
  SlicedTask* const raw = task.get();
  raw->group_ = group;
  raw->self_ = std::move(task);
  raw->next_ = posted_.load(std::memory_order_relaxed);
  while (!posted_.compare_exchange_weak(raw->next_, raw, std::memory_order_release, std::memory_order_relaxed)) {
  }
  news_.raise();
}

void MaskWorkers::work() {
  give_way();
  while (!stop_) {
    const uint32_t seen = news_.count();
    std::unique_lock lock(mutex_);
    take_posted();
    const auto group =
        std::find_if(groups_.begin(), groups_.end(), [](const Group& other) { return !other.is_running; });
    if (group != groups_.end()) {
      run_turn(lock, group);
    } else if (arrived_ != nullptr) {  // memory lacked
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      lock.unlock();
      if (!stop_) news_.wait(seen);
    }
  }
}

void MaskWorkers::run_turn(std::unique_lock<std::mutex>& lock, std::list<Group>::iterator group) {
  group->is_running = true;
  std::shared_ptr<SlicedTask> task = group->tasks.front();
  lock.unlock();
  const bool done = task->run_slice();
  lock.lock();
  group->is_running = false;
  if (done) group->tasks.pop_front();
  if (group->tasks.empty()) {
    groups_.erase(group);
  } else {
    groups_.splice(groups_.end(), groups_, group);
  }
  lock.unlock();
  if (done) task->on_done();
}

void MaskWorkers::take_posted() {
  SlicedTask* newest = posted_.exchange(nullptr, std::memory_order_acquire);
  SlicedTask* oldest = nullptr;
  while (newest != nullptr) {
    SlicedTask* const before = std::exchange(newest->next_, oldest);
    oldest = std::exchange(newest, before);
  }
  SlicedTask** end = &arrived_;
  while (*end != nullptr) end = &(*end)->next_;
  *end = oldest;
  try {
    while (arrived_ != nullptr) {
      SlicedTask* const task = arrived_;
      SlicedTask* const next = task->next_;
      sort_in(task);
      arrived_ = next;
    }
  } catch (const std::bad_alloc&) {  // the rest is taken later
  }
}

void MaskWorkers::sort_in(SlicedTask* task) {
  auto group =
      std::find_if(groups_.begin(), groups_.end(), [task](const Group& other) { return other.key == task->group_; });
  if (group == groups_.end())
    group = groups_.insert(groups_.end(), Group{task->group_, {task->self_}});
  else
    group->tasks.push_back(task->self_);
  task->self_.reset();
}

}  // namespace ashlar
