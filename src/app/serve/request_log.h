// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row for each request in a SQLite file, written on a thread of its own.

#include <functional>
#include <memory>
#include <string>

#include "server/service/job.h"

namespace ashlar {

/// Throws Error("request-log") if what is there by that name cannot be a log: no file, no database, one of another
/// program. Nothing is written, and no file made next to it; what only a database's write-ahead log says is not seen.
/// A file that is empty or not there yet is fine.
void check_request_log_file(const std::string& file);

class RequestLog {
 public:
  /// Opens or makes the file, which its owner alone may read if it is new. Throws Error("request-log") if it cannot be
  /// used or is of another program. `on_loss` is called on the writing thread, at most once a minute, when rows were
  /// lost.
  RequestLog(const std::string& file, bool texts, std::function<void(const std::string&)> on_loss = {});
  /// Writes what is queued.
  ~RequestLog();

  /// Queues a row; loses it if thousands are waiting for the disk. Thread-safe.
  void add(const server::RequestRecord& record);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar
