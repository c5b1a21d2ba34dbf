// SPDX-License-Identifier: Apache-2.0
#include "app/process/terminate_handler.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "session/terminal.h"

namespace ashlar {
namespace {

std::terminate_handler usual = nullptr;
std::atomic<bool> as_json{false};

int json_line(char* out, size_t size) {
  using std::chrono::floor;
  const auto now = floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto day = floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const auto ms = static_cast<int>((now - day).count());
  return std::snprintf(out, size,
                       R"({"time":"%04d-%02u-%02uT%02d:%02d:%02d.%03dZ","level":"error","message":"%s"})"
                       "\n",
                       static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                       static_cast<unsigned>(date.day()), ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60, ms % 1000,
                       kOutOfMemory);
}

int plain_line(char* out, size_t size) {
  const bool color = use_color(ColorMode::kAuto, STDERR_FILENO);
  return std::snprintf(out, size, "%serror: %s%s\n", color ? "\033[31m" : "", kOutOfMemory, color ? "\033[0m" : "");
}

// Allocates nothing, and runs no destructor: they may be where memory ran out.
[[noreturn]] void end_without_memory() {
  char line[256];
  const int length = as_json ? json_line(line, sizeof line) : plain_line(line, sizeof line);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(length));
  _exit(1);
}

[[noreturn]] void on_terminate() {
  if (std::current_exception() != nullptr) {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      end_without_memory();
    } catch (...) {
    }
  }
  if (usual != nullptr) usual();  // says what was thrown, and aborts
  std::abort();
}

}  // namespace

void handle_uncaught_exceptions() { usual = std::set_terminate(on_terminate); }
void terminate_as_json() { as_json = true; }

}  // namespace ashlar
