#pragma once
// Records of requests on their way to a disk, on a thread of their own: what ends a request never waits for it.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "server/service/job.h"

namespace ashlar {

class RecordWriter {
 public:
  using Records = std::deque<server::RequestRecord>;
  /// Writes records, all or none of them, on the writer's thread. Returns why it could not; empty if it could.
  using Write = std::function<std::string(const Records&)>;

  /// `what`: "the request log lacks", for reports of losses, which `on_loss` gets on the writer's thread, at most once
  /// a minute.
  RecordWriter(std::string what, Write write, std::function<void(const std::string&)> on_loss);
  /// Writes what is queued.
  ~RecordWriter();

  /// Queues a record; loses it if thousands are waiting for the disk. Thread-safe.
  void add(const server::RequestRecord& record);

 private:
  void run();
  void report_loss(int64_t missed, const std::string& why);

  const std::string what_;
  const Write write_;
  const std::function<void(const std::string&)> on_loss_;
  int64_t lost_ = 0, reported_ns_ = 0;  // the thread's
  std::mutex mutex_;                    // guards what follows
  std::condition_variable ready_;
  Records queue_;
  int64_t dropped_ = 0;  // never queued
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ashlar
