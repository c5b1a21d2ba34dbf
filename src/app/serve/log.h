// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's log on stderr: lines for people, or one JSON object a line for machines. A thread of its own writes it:
// who reads stderr and stops reading does not stop the server.

#include <unistd.h>

#include <memory>
#include <string>

#include "io/json.h"

namespace ashlar {

struct LogOptions {
  std::string format = "text";  ///< or "json"
  std::string level = "info";   ///< debug, info, warn, error
};

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// Thread-safe; never throws for what it is given and never waits. Lines that come while megabytes wait to be written
/// are lost; a later line says how many.
class Log {
 public:
  explicit Log(const LogOptions& options, int fd = STDERR_FILENO);
  /// Waits for its lines to be written, unless they are not taken.
  ~Log();

  /// `fields` is an object: " key=value" after the message, or members of the JSON line.
  void write(LogLevel level, const std::string& message, const Json& fields = Json::object());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Notes, warnings and errors for people (session/terminal.h) become lines of such a log, for the rest of the program.
void log_messages(const LogOptions& options);

}  // namespace ashlar
