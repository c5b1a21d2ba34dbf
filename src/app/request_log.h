#pragma once
// One row for each request in a SQLite file, written on a thread of its own.

#include <memory>
#include <string>

#include "server/service/job.h"

namespace ashlar {

class RequestLog {
 public:
  /// Opens or makes the file. Throws Error("request-log") if it cannot be used or is of another program.
  RequestLog(const std::string& file, bool texts);
  /// Writes what is queued.
  ~RequestLog();

  /// Queues a row; drops it if thousands are waiting for the disk. Thread-safe.
  void add(const server::RequestRecord& record);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar
