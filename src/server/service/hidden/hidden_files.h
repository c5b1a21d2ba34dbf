// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hidden states of prompts, which requests ask for, on their way to files: a folder of bounded size, and a thread that
// writes to it, so that neither the engine nor other answers wait for the disk.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/request.h"
#include "io/durable_file.h"
#include "server/api/parse/parsed.h"

namespace ashlar::server {

class HiddenFiles;

/// The file of one prompt, as vLLM's connector writes it: safetensors with token_ids [tokens] in I64 and hidden_states
/// [tokens, layers, size]. It appears when it is whole, and goes away with this unless somebody keeps it.
class HiddenFile {
 public:
  ~HiddenFile();
  HiddenFile(const HiddenFile&) = delete;
  HiddenFile& operator=(const HiddenFile&) = delete;

  /// Absolute, with a name that cannot be guessed.
  const std::filesystem::path& path() const { return path_; }
  /// It is whole and stays, for the client who asked for it.
  void keep() { kept_ = true; }

 private:
  friend class HiddenFiles;
  HiddenFile(HiddenFiles& files, std::filesystem::path path, std::string head, int64_t rows, int64_t bytes)
      : files_(files), path_(std::move(path)), head_(std::move(head)), rows_left_(rows), bytes_(bytes) {}

  HiddenFiles& files_;
  const std::filesystem::path path_;
  const std::string head_;  // all that stands before the rows
  // The writing thread's, until the end was passed on:
  std::optional<DurableFile> file_;
  int64_t rows_left_;
  bool whole_ = false;
  std::string problem_;  // why it cannot be written
  const int64_t bytes_;
  std::atomic<bool> reserves_{false};  // its bytes count although the folder has not got them
  std::atomic<bool> kept_{false};
};

class HiddenFiles {
 public:
  static constexpr const char* kPrefix = "hidden-";
  static constexpr const char* kSuffix = ".safetensors";

  struct Options {
    std::filesystem::path folder;
    int64_t bytes = 0;                            ///< most that the files in the folder may take
    HiddenRow row;                                ///< what a token has
    std::map<std::string, std::string> metadata;  ///< of every file
  };

  /// Makes the folder, for its owner alone, or takes one that is there and removes what servers that were killed have
  /// left unfinished. Throws Error("hidden-states", ...) if it cannot be written.
  explicit HiddenFiles(Options options);
  /// Writes what is queued. No file may be left.
  ~HiddenFiles();
  HiddenFiles(const HiddenFiles&) = delete;
  HiddenFiles& operator=(const HiddenFiles&) = delete;

  /// Room for a prompt's hidden states, or why there is none: 400 where there never will be, 503 where files have to be
  /// taken away first. Thread-safe.
  Parsed<std::shared_ptr<HiddenFile>> begin(std::span<const int32_t> prompt, const std::string& field);
  /// A sink that writes the request's hidden states to the file and hands everything else on; the end when the file is
  /// there. An end without error becomes one where the file cannot be written.
  std::shared_ptr<EventSink> sink(std::shared_ptr<HiddenFile> file, std::shared_ptr<EventSink> inner);

 private:
  friend class HiddenFile;
  class Sink;
  struct Item {
    std::shared_ptr<HiddenFile> file;
    std::vector<std::byte> rows;
    std::shared_ptr<EventSink> inner;  // then this is the end
    EndEvent end = {};
  };
  void remove_unfinished() const;
  int64_t bytes_in_folder() const;
  void release(HiddenFile& file) noexcept;
  void put(Item item);
  void put_end(std::list<Item> end) noexcept;
  void run();
  void append(HiddenFile& file, std::span<const std::byte> rows) const noexcept;
  void conclude(HiddenFile& file, EndEvent& end) noexcept;

  const Options options_;
  std::mutex room_;  // held while room is looked for and taken: by begin() alone, since that reads the folder
  std::atomic<int64_t> reserved_{0};  // bytes of files that are not there yet; grows under room_ alone
  std::mutex mutex_;                  // guards what follows; the engine's thread waits for it, so never for the disk
  std::condition_variable ready_;
  std::list<Item> queue_;
  size_t queued_bytes_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ashlar::server
