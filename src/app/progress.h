#pragma once
// One line on stderr that says how far something is. Nothing is shown where stderr is not a terminal, nor for what is
// done within a second; the line is erased at the end.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace ashlar {

/// "eval  [#########.......]  57 %  12 of 21  00:04 left"
class Progress {
 public:
  Progress(std::string label, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the total are done.
  void update(int64_t done);

 private:
  std::string label_;
  int64_t total_;
  int64_t start_ns_;
  int64_t shown_ns_ = 0;
  bool terminal_;
};

/// The text of a Progress line at most `width` columns wide; for tests.
std::string progress_line(const std::string& label, int64_t done, int64_t total, double seconds, int width);

/// For what cannot say how far it is: the label and the seconds passed.
class Activity {
 public:
  explicit Activity(std::string label);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  void show();

  std::string label_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace ashlar
