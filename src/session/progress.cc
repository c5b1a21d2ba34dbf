// SPDX-License-Identifier: Apache-2.0
#include "session/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/clock.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

constexpr int64_t kQuietNs = 1'000'000'000;  // shorter work shows nothing
constexpr int64_t kRefreshNs = 100'000'000;

void erase_line() { std::fputs("\r\033[K", stderr); }

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  char text[32];
  std::snprintf(text, sizeof text, "%02lld:%02lld", static_cast<long long>(whole / 60),
                static_cast<long long>(whole % 60));
  return text;
}

std::string counts_text(int64_t done, int64_t total, double seconds, ProgressUnit unit, int64_t before) {
  if (unit == ProgressUnit::kCount) return std::to_string(done) + " of " + std::to_string(total);
  std::string text = bytes_text(done) + " of " + bytes_text(total);
  if (seconds > 0 && done > before) {
    text += "  " + bytes_text(static_cast<int64_t>(static_cast<double>(done - before) / seconds)) + "/s";
  }
  return text;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s",
                unit == 0 || value >= 99.95 ? 0
                : value >= 9.995            ? 1
                                            : 2,
                value, kUnits[unit]);
  return text;
}

std::string progress_line(const std::string& label, int64_t done, int64_t total, double seconds, int width,
                          ProgressUnit unit, int64_t before) {
  const double share = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0.0;
  char percentage[16];
  std::snprintf(percentage, sizeof percentage, " %3d %%  ", static_cast<int>(share * 100));
  std::string tail = percentage + counts_text(done, total, seconds, unit, before);
  if (done > before) {
    const double left = static_cast<double>(std::max<int64_t>(total - done, 0));
    tail += "  " + clock_text(seconds * left / static_cast<double>(done - before)) + " left";
  }
  const int bar = std::min(30, width - 1 - static_cast<int>(label.size() + tail.size()) - 4);
  std::string line = label + "  ";
  if (bar >= 5) {
    const int full = static_cast<int>(share * bar);
    line += "[" + std::string(full, '#') + std::string(bar - full, '.') + "]";
  }
  return (line + tail).substr(0, static_cast<size_t>(std::max(0, width - 1)));
}

Progress::Progress(std::string label, int64_t total, ProgressUnit unit, int64_t before)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      before_(before),
      start_ns_(now_ns()),
      terminal_(is_terminal(STDERR_FILENO)) {}

void Progress::update(int64_t done) {
  done_ = std::max(done_, done);
  const int64_t now = now_ns();
  if (!terminal_ || now - start_ns_ < kQuietNs || now - shown_ns_ < kRefreshNs) return;
  shown_ns_ = now;
  erase_line();
  const double seconds = static_cast<double>(now - start_ns_) * 1e-9;
  std::fputs(progress_line(label_, done_, total_, seconds, terminal_width(STDERR_FILENO), unit_, before_).c_str(),
             stderr);
  std::fflush(stderr);
}

void Progress::hide() {
  if (shown_ns_ != 0) erase_line();
  shown_ns_ = 0;
}

Progress::~Progress() { hide(); }

Activity::Activity(std::string label) : label_(std::move(label)) {
  if (is_terminal(STDERR_FILENO)) thread_ = std::thread([this] { show(); });
}

void Activity::show() {
  const int64_t start = now_ns();
  bool shown = false;
  std::unique_lock lock(mutex_);
  auto wait = std::chrono::nanoseconds(kQuietNs);
  while (!ended_.wait_for(lock, wait, [this] { return end_; })) {
    wait = std::chrono::nanoseconds(kRefreshNs);
    std::fprintf(stderr, "\r%s  %.1f s\033[K", label_.c_str(), static_cast<double>(now_ns() - start) * 1e-9);
    std::fflush(stderr);
    shown = true;
  }
  if (shown) erase_line();
}

Activity::~Activity() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

}  // namespace ashlar
