#include "app/serve/record_writer.h"

#include <utility>

#include "base/clock.h"

namespace ashlar {
namespace {

constexpr size_t kMaxQueued = 10'000;
constexpr int64_t kBetweenReports_ns = 60'000'000'000;

}  // namespace

RecordWriter::RecordWriter(std::string what, Write write, std::function<void(const std::string&)> on_loss)
    : what_(std::move(what)), write_(std::move(write)), on_loss_(std::move(on_loss)), thread_([this] { run(); }) {}

RecordWriter::~RecordWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  thread_.join();
}

void RecordWriter::add(const server::RequestRecord& record) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= kMaxQueued) {
      ++dropped_;
      return;
    }
    queue_.push_back(record);
  }
  ready_.notify_one();
}

void RecordWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Records records;
    records.swap(queue_);
    int64_t missed = std::exchange(dropped_, 0);
    lock.unlock();
    const std::string why = write_(records);
    if (!why.empty()) missed += static_cast<int64_t>(records.size());
    if (missed > 0) report_loss(missed, why);
    lock.lock();
  }
}

void RecordWriter::report_loss(int64_t missed, const std::string& why) {
  lost_ += missed;
  const int64_t now = now_ns();
  if (!on_loss_ || (reported_ns_ != 0 && now - reported_ns_ < kBetweenReports_ns)) return;
  reported_ns_ = now;
  on_loss_(what_ + " " + std::to_string(lost_) +
           " requests: " + (why.empty() ? "they end faster than the disk writes" : why));
  lost_ = 0;
}

}  // namespace ashlar
