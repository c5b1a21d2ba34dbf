// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records on their way to a disk, on a thread of their own: what ends requests never waits for it.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace ashlar {

/// What a disk did not take.
struct LostRecords {
  int64_t n = 0;
  std::string why;
};

template <class Record>
class RecordWriter {
 public:
  using Records = std::deque<Record>;
  /// Writes records, on the writer's thread.
  using Write = std::function<LostRecords(const Records&)>;

  /// `what`: "the request log lacks", for reports of losses, which `on_loss` gets on the writer's thread, at most once
  /// a minute.
  RecordWriter(std::string what, Write write, std::function<void(const std::string&)> on_loss)
      : what_(std::move(what)), write_(std::move(write)), on_loss_(std::move(on_loss)), thread_([this] { run(); }) {}

  /// Writes what is queued.
  ~RecordWriter() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    ready_.notify_all();
    thread_.join();
  }

  /// Queues a record of about `bytes`, or drops it: at most kMaxQueued, and kMaxQueuedBytes, wait for the disk.
  /// Thread-safe.
  void add(Record record, size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= kMaxQueued || bytes_ + bytes > kMaxQueuedBytes) {
        ++dropped_;
        return;
      }
      queue_.push_back(std::move(record));
      bytes_ += bytes;
    }
    ready_.notify_one();
  }

 private:
  static constexpr size_t kMaxQueued = 10'000;
  static constexpr size_t kMaxQueuedBytes = size_t{64} << 20;
  static constexpr int64_t kBetweenReports_ns = 60'000'000'000;

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ready_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) break;
      Records records;
      records.swap(queue_);
      bytes_ = 0;
      lost_ += std::exchange(dropped_, 0);
      lock.unlock();
      write(records);
      lock.lock();
    }
    lost_ += std::exchange(dropped_, 0);
    lock.unlock();
    reported_ns_ = 0;  // the last chance to say it
    write({});
  }

  // Memory may be short, too; the next records are tried again.
  void write(const Records& records) noexcept {
    try {
      const LostRecords lost = records.empty() ? LostRecords() : write_(records);
      lost_ += lost.n;
      if (!lost.why.empty()) why_ = lost.why;
      report_loss();
    } catch (const std::exception& error) {
      lost_ += static_cast<int64_t>(records.size());
      why_ = copy_or_less(message_of(error));
    }
  }

  void report_loss() {
    if (lost_ == 0 || !on_loss_) return;
    const int64_t now = now_ns();
    if (reported_ns_ != 0 && now - reported_ns_ < kBetweenReports_ns) return;
    reported_ns_ = now;
    on_loss_(what_ + " " + std::to_string(lost_) +
             " requests: " + (why_.empty() ? "they end faster than the disk writes" : why_));
    lost_ = 0;
    why_.clear();
  }

  const std::string what_;
  const Write write_;
  const std::function<void(const std::string&)> on_loss_;
  int64_t lost_ = 0, reported_ns_ = 0;  // the thread's, as is `why_`
  std::string why_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ready_;
  Records queue_;
  size_t bytes_ = 0;
  int64_t dropped_ = 0;  // never queued
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ashlar
