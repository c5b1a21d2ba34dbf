#include "app/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "app/terminal.h"
#include "base/clock.h"

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

}  // namespace

std::string progress_line(const std::string& label, int64_t done, int64_t total, double seconds, int width) {
  const double share = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0.0;
  char counts[96];
  std::snprintf(counts, sizeof counts, " %3d %%  %lld of %lld", static_cast<int>(share * 100),
                static_cast<long long>(done), static_cast<long long>(total));
  std::string tail = counts;
  if (share > 0) tail += "  " + clock_text(seconds / share - seconds) + " left";
  const int bar = std::min(30, width - 1 - static_cast<int>(label.size() + tail.size()) - 4);
  std::string line = label + "  ";
  if (bar >= 5) {
    const int full = static_cast<int>(share * bar);
    line += "[" + std::string(full, '#') + std::string(bar - full, '.') + "]";
  }
  return (line + tail).substr(0, static_cast<size_t>(std::max(0, width - 1)));
}

Progress::Progress(std::string label, int64_t total)
    : label_(std::move(label)), total_(total), start_ns_(now_ns()), terminal_(is_terminal(STDERR_FILENO)) {}

void Progress::update(int64_t done) {
  const int64_t now = now_ns();
  if (!terminal_ || now - start_ns_ < kQuietNs || now - shown_ns_ < kRefreshNs) return;
  shown_ns_ = now;
  erase_line();
  const double seconds = static_cast<double>(now - start_ns_) * 1e-9;
  std::fputs(progress_line(label_, done, total_, seconds, terminal_width(STDERR_FILENO)).c_str(), stderr);
  std::fflush(stderr);
}

Progress::~Progress() {
  if (shown_ns_ != 0) erase_line();
}

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
