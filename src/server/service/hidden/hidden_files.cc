// SPDX-License-Identifier: Apache-2.0
#include "server/service/hidden/hidden_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/weights/safetensors_writer.h"

namespace ashlar::server {
namespace {

namespace fs = std::filesystem;

// Rows that wait for the disk: a disk that is slower than the device for long ends requests.
constexpr size_t kMaxQueued = size_t{1} << 30;

constexpr std::string_view kDigits = "0123456789abcdef";
constexpr size_t kNameDigits = 32;

std::string unguessable() {
  std::random_device random;
  std::string name;
  while (name.size() < kNameDigits) {
    uint32_t bits = random();
    for (int k = 0; k < 8; ++k, bits >>= 4U) name += kDigits[bits & 15U];
  }
  return name;
}

bool take(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  return true;
}

bool take_number(std::string_view& text, pid_t& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (wrong != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

// The process that began a file of this name, which has what DurableFile puts at the end of one that is not whole.
std::optional<pid_t> writer_of(std::string_view name) {
  if (!take(name, HiddenFiles::kPrefix)) return std::nullopt;
  if (std::min(name.find_first_not_of(kDigits), name.size()) != kNameDigits) return std::nullopt;
  name.remove_prefix(kNameDigits);
  pid_t process = 0;
  pid_t number = 0;
  if (!take(name, HiddenFiles::kSuffix) || !take(name, kUnfinished) || !take_number(name, process) ||
      !take(name, "-") || !take_number(name, number) || !name.empty() || process == 0) {
    return std::nullopt;
  }
  return process;
}

// This one has begun no file when it asks: one of its number is of an earlier process, as in a container.
bool another_runs(pid_t process) { return process != ::getpid() && (::kill(process, 0) == 0 || errno != ESRCH); }

TensorToWrite tensor_named(const char* name, std::vector<int64_t> shape, TensorToWrite::Type type) {
  TensorToWrite tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.type = type;
  return tensor;
}

// The ids stand before the rows, which come piece by piece.
std::string head_of(const HiddenFiles::Options& options, const fs::path& path, std::span<const int32_t> prompt) {
  const auto n = static_cast<int64_t>(prompt.size());
  const std::vector<int64_t> ids(prompt.begin(), prompt.end());
  std::vector<TensorToWrite> tensors = {
      tensor_named("token_ids", {n}, TensorToWrite::Type::kI64),
      tensor_named("hidden_states", {n, options.row.layers, options.row.size},
                   options.row.type == DType::kF32 ? TensorToWrite::Type::kF32 : TensorToWrite::Type::kBF16)};
  tensors[0].integers = ids;
  tensors[1].fill = [](int64_t, int64_t, float*) {};
  std::string head = safetensors_head(path, tensors, options.metadata);
  head.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int64_t));
  return head;
}

[[noreturn]] void fail(const fs::path& path, const std::string& why) {
  throw Error("hidden-states", path.string() + ": " + why + "; expected a folder that can be written, or none yet");
}

}  // namespace

// On the engine's thread but for the end, which the writing thread hands on.
class HiddenFiles::Sink final : public EventSink {
 public:
  Sink(HiddenFiles& files, std::shared_ptr<HiddenFile> file, std::shared_ptr<EventSink> inner)
      : files_(files), end_{{std::move(file), {}, std::move(inner)}} {}

  void on_prompt(const PromptEvent& event) override { end_.front().inner->on_prompt(event); }
  void on_tokens(const TokensEvent& event) override { end_.front().inner->on_tokens(event); }
  void on_hidden(const HiddenEvent& event) override {
    const std::byte* end = event.rows + static_cast<size_t>(event.n) * event.row.bytes();
    files_.put({end_.front().file, {event.rows, end}, nullptr});
  }
  void on_end(EndEvent event) noexcept override {
    end_.front().end = std::move(event);
    files_.put_end(std::move(end_));
  }

 private:
  HiddenFiles& files_;
  std::list<Item> end_;  // one item, so that the end needs no memory
};

HiddenFile::~HiddenFile() {
  files_.release(*this);
  if (!whole_ || kept_) return;
  std::error_code ignored;
  fs::remove(path_, ignored);
}

HiddenFiles::HiddenFiles(Options options) : options_(std::move(options)) {
  std::error_code failed;
  if (fs::create_directories(options_.folder, failed)) {
    fs::permissions(options_.folder, fs::perms::owner_all, failed);
  }
  if (!fs::is_directory(options_.folder, failed)) fail(options_.folder, failed ? failed.message() : "is no folder");
  if (::access(options_.folder.c_str(), R_OK | W_OK | X_OK) != 0) fail(options_.folder, std::strerror(errno));
  remove_unfinished();
  thread_ = std::thread([this] { run(); });
}

HiddenFiles::~HiddenFiles() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  thread_.join();
}

// No client knows of them, and they would not count. Those of a server that runs and has the same folder stay.
void HiddenFiles::remove_unfinished() const {
  std::error_code failed;
  for (fs::directory_iterator entry(options_.folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::optional<pid_t> writer = writer_of(entry->path().filename().string());
    std::error_code ignored;
    if (writer && !another_runs(*writer) && fs::is_regular_file(entry->symlink_status(ignored))) {
      fs::remove(entry->path(), ignored);
    }
  }
}

// Clients take files away when they like.
int64_t HiddenFiles::bytes_in_folder() const {
  int64_t bytes = 0;
  std::error_code failed;
  for (fs::directory_iterator entry(options_.folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    std::error_code gone;
    const uintmax_t size = entry->file_size(gone);
    if (!gone) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

Parsed<std::shared_ptr<HiddenFile>> HiddenFiles::begin(std::span<const int32_t> prompt, const std::string& field) {
  const fs::path path = fs::absolute(options_.folder) / (kPrefix + unguessable() + kSuffix);
  std::string head = head_of(options_, path, prompt);
  const auto bytes = static_cast<int64_t>(head.size() + prompt.size() * options_.row.bytes());
  const std::string need = "hidden states of " + std::to_string(prompt.size()) + " tokens take " +
                           std::to_string(bytes) + " bytes; this server keeps " + std::to_string(options_.bytes);
  if (bytes > options_.bytes) {
    return ApiError{400, "invalid_request_error", field + ": " + need + " at most (--hidden-states-size)", field, "",
                    0};
  }
  const std::shared_ptr<HiddenFile> file(
      new HiddenFile(*this, path, std::move(head), static_cast<int64_t>(prompt.size()), bytes));
  const std::lock_guard lock(room_);
  // Read before the folder: a file that becomes whole meanwhile may count twice, but never not at all.
  const int64_t reserved = reserved_;
  const int64_t held = bytes_in_folder() + reserved;
  if (held + bytes > options_.bytes) {
    return ApiError{503,
                    "server_error",
                    need + ", of which " + std::to_string(held) +
                        " are in use: take files away that have been read, or raise --hidden-states-size",
                    field,
                    "hidden_states_full",
                    10};
  }
  file->reserves_ = true;
  reserved_ += bytes;
  return file;
}

// On any thread, the engine's too, which must not wait for somebody who reads the folder.
void HiddenFiles::release(HiddenFile& file) noexcept {
  if (file.reserves_.exchange(false)) reserved_ -= file.bytes_;
}

std::shared_ptr<EventSink> HiddenFiles::sink(std::shared_ptr<HiddenFile> file, std::shared_ptr<EventSink> inner) {
  return std::make_shared<Sink>(*this, std::move(file), std::move(inner));
}

void HiddenFiles::put(Item item) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ + item.rows.size() > kMaxQueued) {
      throw Error("hidden-states", "the disk is slower than the model: rows wait to be written that take " +
                                       std::to_string(queued_bytes_) +
                                       " bytes; ask for the hidden states of fewer prompts at once");
    }
    const size_t bytes = item.rows.size();
    queue_.push_back(std::move(item));
    queued_bytes_ += bytes;
  }
  ready_.notify_one();
}

void HiddenFiles::put_end(std::list<Item> end) noexcept {
  {
    const std::lock_guard lock(mutex_);
    queue_.splice(queue_.end(), end);
  }
  ready_.notify_one();
}

void HiddenFiles::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::list<Item> next;
    next.splice(next.end(), queue_, queue_.begin());
    lock.unlock();
    Item& item = next.front();
    if (item.inner == nullptr) {
      append(*item.file, item.rows);
    } else {
      conclude(*item.file, item.end);
      item.inner->on_end(std::move(item.end));
    }
    const size_t written = item.rows.size();
    next.clear();
    lock.lock();
    queued_bytes_ -= written;
  }
}

void HiddenFiles::append(HiddenFile& file, std::span<const std::byte> rows) const noexcept {
  if (!file.problem_.empty()) return;
  try {
    // A reader on the same machine needs no sync, and one elsewhere gets what its file system promises.
    if (!file.file_) {
      file.file_.emplace(file.path_, DurableFile::Options{.mode = 0600, .sync = false});
      file.file_->write(file.head_);
    }
    file.file_->write(rows);
    file.rows_left_ -= static_cast<int64_t>(rows.size() / options_.row.bytes());
  } catch (const std::exception& error) {
    file.file_.reset();
    file.problem_ = copy_or_less(message_of(error));
    if (file.problem_.empty()) file.problem_ = "no memory";
  }
}

// What a failed request leaves goes away with its file; one that was cut off after its prompt may still be answered.
void HiddenFiles::conclude(HiddenFile& file, EndEvent& end) noexcept {
  try {
    if (file.problem_.empty() && file.file_ && file.rows_left_ == 0 && end.reason != FinishReason::kError) {
      file.file_->commit();
      file.whole_ = true;
    }
  } catch (const std::exception& error) {
    file.problem_ = copy_or_less(message_of(error));
  }
  file.file_.reset();
  release(file);
  if (file.whole_ || end.reason == FinishReason::kError || end.reason == FinishReason::kCancelled) return;
  end.reason = FinishReason::kError;
  end.error = copy_or_less("the hidden states cannot be written: " + file.problem_);
}

}  // namespace ashlar::server
