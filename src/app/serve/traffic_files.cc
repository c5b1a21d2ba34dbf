#include "app/serve/traffic_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "traffic-", kSuffix = ".jsonl";
constexpr size_t kDigits = 6;

// 0 if a name is not that of a file with traffic.
int64_t number_in(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || name.size() > 40) return 0;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
  return failed == std::errc() && end == name.data() + name.size() && number > 0 ? number : 0;
}

std::string line_of(const server::AnsweredTokens& tokens, const std::string& model) {
  std::vector<int32_t> ids = tokens.prompt;
  ids.insert(ids.end(), tokens.answer.begin(), tokens.answer.end());
  std::vector<int> mask(ids.size(), 1);
  std::fill_n(mask.begin(), tokens.prompt.size(), 0);
  return Json{{"ids", std::move(ids)}, {"mask", std::move(mask)}, {"model", model}}.dump() + "\n";
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
  if (!fs::is_directory(options_.folder)) fail(options_.folder, failed ? failed.message() : "is no folder");
  if (::access(options_.folder.c_str(), R_OK | W_OK | X_OK) != 0) fail(options_.folder, std::strerror(errno));
  find_files();
  check_model();
  writer_.emplace(
      "the traffic to learn from lacks", [this](const RecordWriter::Records& records) { return write_all(records); },
      std::move(on_loss));
}

TrafficFiles::~TrafficFiles() {
  writer_.reset();
  if (fd_ >= 0) ::close(fd_);
}

void TrafficFiles::add(const server::RequestRecord& record) {
  if (!record.tokens.empty()) writer_->add(record);
}

fs::path TrafficFiles::path_of(int64_t number) const {
  std::string digits = std::to_string(number);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return options_.folder / (std::string(kPrefix) + digits + std::string(kSuffix));
}

void TrafficFiles::find_files() {
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder)) {
    const int64_t number = number_in(entry.path().filename().string());
    if (number > 0 && entry.is_regular_file()) {
      files_.push_back({number, static_cast<int64_t>(entry.file_size())});
    }
  }
  std::sort(files_.begin(), files_.end(), [](const Kept& a, const Kept& b) { return a.number < b.number; });
}

// By the first line of each file: ids of another tokenizer would be learnt as if they were this model's.
void TrafficFiles::check_model() const {
  for (const Kept& kept : files_) {
    std::ifstream file(path_of(kept.number));
    std::string line;
    if (!std::getline(file, line)) continue;
    const Json fields = Json::parse(line, nullptr, false);
    if (fields.is_object() && fields.value("model", Json()) == options_.model) continue;
    throw Error("learn", path_of(kept.number).string() +
                             ": is not of the model that is served; expected a folder of its own for each model");
  }
}

// Not before there is a line for it: a file without one is no training data.
bool TrafficFiles::begin_file() {
  const int64_t number = files_.empty() ? 1 : files_.back().number + 1;
  const int fd = ::open(path_of(number).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
  files_.push_back({number, 0});
  return true;
}

// Whole lines in one call, or nothing: a reader finds whole lines, meanwhile and after a kill.
bool TrafficFiles::append(const std::string& lines) {
  Kept& newest = files_.back();
  const ssize_t n = ::write(fd_, lines.data(), lines.size());
  if (n == static_cast<ssize_t>(lines.size())) {
    newest.bytes += n;
    return true;
  }
  const int why = n < 0 ? errno : ENOSPC;
  if (n > 0 && ::ftruncate(fd_, newest.bytes) != 0) newest.bytes += n;
  errno = why;
  return false;
}

std::string TrafficFiles::write_all(const RecordWriter::Records& records) {
  std::string why;
  for (const server::RequestRecord& record : records) {
    for (const server::AnsweredTokens& tokens : record.tokens) {
      const std::string line = line_of(tokens, options_.model);
      const bool full = fd_ < 0 || files_.back().bytes + static_cast<int64_t>(line.size()) > options_.bytes / kFiles;
      if ((full && !begin_file()) || !append(line)) why = std::strerror(errno);
    }
  }
  remove_oldest();
  return why;
}

void TrafficFiles::remove_oldest() {
  const auto all = [this] {
    return std::accumulate(files_.begin(), files_.end(), int64_t{0},
                           [](int64_t sum, const Kept& kept) { return sum + kept.bytes; });
  };
  while (files_.size() > 1 && all() > options_.bytes) {
    std::error_code failed;
    fs::remove(path_of(files_.front().number), failed);
    files_.erase(files_.begin());
  }
}

}  // namespace ashlar
