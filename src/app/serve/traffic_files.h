// SPDX-License-Identifier: Apache-2.0
#pragma once
// Token ids of answered requests as training data, in a folder of bounded size that the operator named.

#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/serve/record_writer.h"
#include "server/service/job.h"

namespace ashlar {

/// Files traffic-000001.jsonl and on, which their owner alone may read. A line is an answer: {"ids": ..., "mask": ...},
/// its prompt not to be learnt, and the mark of the weights that wrote it. They hold no text, and no name of anybody.
/// When they grow beyond the bound, the oldest goes.
class TrafficFiles {
 public:
  struct Options {
    std::filesystem::path folder;
    int64_t bytes = 0;  ///< of all files together
    std::string model;  ///< the mark of its weights (io/weights/weights_mark.h)
    /// Answers of files that were written to later count as new from the start; none: what is there is not counted.
    std::optional<std::filesystem::file_time_type> new_since = {};
  };
  struct Counts {
    int64_t answers = 0;  ///< that the folder has
    int64_t added = 0;    ///< that are new, and those that came since; never falls
  };
  static constexpr int64_t kFiles = 8;  ///< the bound is kept by files of this share of it

  /// Makes the folder, or goes on in it. Throws Error("learn", ...) if it cannot be written, or has traffic of another
  /// model. `on_loss`: as RecordWriter's.
  TrafficFiles(Options options, std::function<void(const std::string&)> on_loss);
  /// Writes what is queued.
  ~TrafficFiles();

  /// Queues the tokens that the record has. Thread-safe.
  void add(const server::RequestRecord& record);
  /// Thread-safe.
  Counts counts() const { return {answers_, added_}; }

 private:
  struct Kept {
    int64_t number, bytes;
    int64_t answers = 0;
  };
  std::filesystem::path path_of(int64_t number) const;
  void find_files();
  int64_t count(const std::filesystem::path& file);
  void mend(const Kept& kept) const;
  void check_model() const;
  bool begin_file();
  bool append(const std::string& lines);
  using Tokens = std::shared_ptr<const std::vector<server::AnsweredTokens>>;
  LostRecords write_all(const std::deque<Tokens>& all);
  bool write(const std::string& line);
  void remove_oldest();

  const Options options_;
  std::atomic<int64_t> answers_{0}, added_{0};
  std::vector<Kept> files_;                     // ascending
  int fd_ = -1;                                 // of the newest, if this process made it
  std::optional<RecordWriter<Tokens>> writer_;  // last: its thread uses all of the above
};

}  // namespace ashlar
