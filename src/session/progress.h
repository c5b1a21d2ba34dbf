// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line on stderr that says how far something is. Nothing is shown where stderr is not a terminal, nor for what is
// done within a second; the line is erased at the end.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace ashlar {

enum class ProgressUnit { kCount, kBytes };

/// "eval  [#########.......]  57 %  12 of 21  00:04 left"; of bytes "57 %  1.20 of 2.10 GB  52.3 MB/s  00:17 left". It
/// never goes back.
class Progress {
 public:
  /// `before`: how much was done before this began, which says nothing about speed.
  Progress(std::string label, int64_t total, ProgressUnit unit = ProgressUnit::kCount, int64_t before = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the total are done; less than before counts as no change.
  void update(int64_t done);
  /// Erases the line, for another one to be printed there; the next update shows it again.
  void hide();

 private:
  std::string label_;
  int64_t total_;
  ProgressUnit unit_;
  int64_t before_;
  int64_t done_ = 0;
  int64_t start_ns_;
  int64_t shown_ns_ = 0;
  bool terminal_;
};

/// The text of a Progress line at most `width` columns wide; for tests.
std::string progress_line(const std::string& label, int64_t done, int64_t total, double seconds, int width,
                          ProgressUnit unit = ProgressUnit::kCount, int64_t before = 0);

/// "1.20 GB": bytes for people, in powers of ten.
std::string bytes_text(int64_t bytes);

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
