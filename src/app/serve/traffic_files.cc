// SPDX-License-Identifier: Apache-2.0
#include "app/serve/traffic_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "train/data/example.h"
#include "train/data/traffic.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

std::string line_of(const server::AnsweredTokens& tokens, const std::string& model) {
  Json line = example_of(tokens.prompt, tokens.answer);
  line["model"] = model;
  return line.dump() + "\n";
}

[[noreturn]] void fail(const fs::path& path, const std::string& why) {
  throw Error("learn", path.string() + ": " + why + "; expected a folder that can be written, or none yet");
}

}  // namespace

TrafficFiles::TrafficFiles(Options options, std::function<void(const std::string&)> on_loss)
    : options_(std::move(options)) {
  std::error_code failed;
  if (fs::create_directories(options_.folder, failed)) {
    fs::permissions(options_.folder, fs::perms::owner_all, failed);
  }
  if (!fs::is_directory(options_.folder, failed)) fail(options_.folder, failed ? failed.message() : "is no folder");
  if (::access(options_.folder.c_str(), R_OK | W_OK | X_OK) != 0) fail(options_.folder, std::strerror(errno));
  find_files();
  check_model();
  remove_oldest();
  writer_.emplace(
      "the traffic to learn from lacks", [this](const std::deque<Tokens>& all) { return write_all(all); },
      std::move(on_loss));
}

TrafficFiles::~TrafficFiles() {
  writer_.reset();
  if (fd_ >= 0) ::close(fd_);
}

void TrafficFiles::add(const server::RequestRecord& record) {
  if (record.tokens == nullptr) return;
  size_t bytes = 0;
  for (const server::AnsweredTokens& tokens : *record.tokens) {
    bytes += sizeof(int32_t) * (tokens.prompt.size() + tokens.answer.size());
  }
  writer_->add(record.tokens, bytes);
}

fs::path TrafficFiles::path_of(int64_t number) const { return options_.folder / traffic_file_name(number); }

void TrafficFiles::find_files() {
  std::error_code failed;
  for (fs::directory_iterator entry(options_.folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const int64_t number = traffic_file_number(entry->path().filename().string());
    std::error_code unknown;
    if (number == 0 || !entry->is_regular_file(unknown)) continue;
    mend({number, static_cast<int64_t>(entry->file_size(unknown))});
    const uintmax_t bytes = fs::file_size(entry->path(), unknown);
    if (!unknown) files_.push_back({number, static_cast<int64_t>(bytes), count(entry->path())});
  }
  if (failed) fail(options_.folder, failed.message());
  std::sort(files_.begin(), files_.end(), [](const Kept& a, const Kept& b) { return a.number < b.number; });
}

// By its lines' ends.
int64_t TrafficFiles::count(const fs::path& path) {
  if (!options_.new_since) return 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(1 << 16);
  int64_t lines = 0;
  do {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    lines += std::count(bytes.begin(), bytes.begin() + file.gcount(), '\n');
  } while (file);
  std::error_code unknown;
  const fs::file_time_type written = fs::last_write_time(path, unknown);
  answers_ += lines;
  if (!unknown && written > *options_.new_since) added_ += lines;
  return lines;
}

// What a kill or a power cut left of a last line goes, and with it a file that has no other.
void TrafficFiles::mend(const Kept& kept) const {
  const fs::path path = path_of(kept.number);
  std::ifstream file(path, std::ios::binary);
  std::string tail;
  int64_t whole = kept.bytes;  // bytes up to a line's end
  constexpr int64_t kStep = 1 << 16;
  for (int64_t begin = kept.bytes; begin > 0;) {
    const int64_t end = std::exchange(begin, std::max<int64_t>(0, begin - kStep));
    tail.resize(static_cast<size_t>(end - begin));
    file.seekg(begin);
    if (!file.read(tail.data(), end - begin)) return;
    const size_t at = tail.rfind('\n');
    whole = at == std::string::npos ? begin : begin + static_cast<int64_t>(at) + 1;
    if (at != std::string::npos) break;
  }
  std::error_code failed;
  if (whole == 0) {
    fs::remove(path, failed);
  } else if (whole < kept.bytes) {
    fs::resize_file(path, static_cast<uintmax_t>(whole), failed);
  }
}

// By the first line of each file: ids of another tokenizer would be learnt as if they were this model's.
void TrafficFiles::check_model() const {
  for (const Kept& kept : files_) {
    if (is_traffic_of(path_of(kept.number), options_.model)) continue;
    throw Error("learn", path_of(kept.number).string() +
                             ": is not of the model that is served; expected a folder of its own for each model");
  }
}

// Where another server writes to the folder as well, each has files of its own.
bool TrafficFiles::begin_file() {
  int fd = -1;
  int64_t number = files_.empty() ? 0 : files_.back().number;
  do {
    fd = ::open(path_of(++number).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EEXIST);
  if (fd < 0) return false;
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
  files_.push_back({number, 0, 0});
  return true;
}

// Of a line that the disk does not take nothing stays, nor a file without a line, which would be no training data.
bool TrafficFiles::append(const std::string& line) {
  Kept& newest = files_.back();
  const ssize_t n = ::write(fd_, line.data(), line.size());
  if (n == static_cast<ssize_t>(line.size())) {
    newest.bytes += n;
    ++newest.answers;
    ++answers_;
    ++added_;
    return true;
  }
  const int why = n < 0 ? errno : ENOSPC;
  const bool mended = n <= 0 || ::ftruncate(fd_, newest.bytes) == 0;
  if (newest.bytes == 0 || !mended) {
    ::close(std::exchange(fd_, -1));
    if (newest.bytes == 0) {
      std::error_code ignored;
      fs::remove(path_of(newest.number), ignored);
      files_.pop_back();
    }
  }
  errno = why;
  return false;
}

bool TrafficFiles::write(const std::string& line) {
  const bool full = fd_ < 0 || files_.back().bytes + static_cast<int64_t>(line.size()) > options_.bytes / kFiles;
  if (full && !begin_file()) return false;
  if (!append(line)) return false;
  if (full) remove_oldest();
  return true;
}

LostRecords TrafficFiles::write_all(const std::deque<Tokens>& all) {
  LostRecords lost;
  for (const Tokens& tokens : all) {
    bool whole = true;
    for (const server::AnsweredTokens& answer : *tokens) {
      errno = 0;
      if (write(line_of(answer, options_.model))) continue;
      lost.why = std::strerror(errno);
      whole = false;
    }
    if (!whole) ++lost.n;
  }
  remove_oldest();
  return lost;
}

void TrafficFiles::remove_oldest() {
  const auto all = [this] {
    return std::accumulate(files_.begin(), files_.end(), int64_t{0},
                           [](int64_t sum, const Kept& kept) { return sum + kept.bytes; });
  };
  while (files_.size() > 1 && all() > options_.bytes) {
    std::error_code failed;
    fs::remove(path_of(files_.front().number), failed);
    if (failed) return;
    answers_ -= files_.front().answers;
    files_.erase(files_.begin());
  }
}

}  // namespace ashlar
