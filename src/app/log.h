#pragma once
// The server's log on stderr: lines for people, or one JSON object a line for machines.

#include <memory>
#include <string>

#include "io/json.h"

namespace ashlar {

struct LogOptions {
  std::string format = "text";  ///< or "json"
  std::string level = "info";   ///< debug, info, warn, error
};

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// Thread-safe; never throws for what it is told.
class Log {
 public:
  explicit Log(const LogOptions& options);
  ~Log();

  /// `fields` is an object: " key=value" behind the message, or members of the JSON line.
  void write(LogLevel level, const std::string& message, const Json& fields = Json::object());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Notes, warnings and errors for people (app/terminal.h) become lines of such a log, for the rest of the program.
void log_messages(const LogOptions& options);

}  // namespace ashlar
