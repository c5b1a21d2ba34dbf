// SPDX-License-Identifier: Apache-2.0
#include "session/weights_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "base/content_hash.h"
#include "base/error.h"
#include "io/user_folders.h"
#include "io/weights/checkpoint.h"
#include "session/memory_plan.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNone = "none";
constexpr const char* kSuffix = ".packed";
constexpr uint64_t kSmallModel = uint64_t{64} << 20;  // is packed in less than half a second
constexpr uint64_t kLeftFree = uint64_t{1} << 30;     // of the disk
constexpr auto kUnused = std::chrono::hours(24 * 60), kAbandoned = std::chrono::hours(1);

// Whether a name is NAME-0123456789abcdef.packed, with or without what a file has while it is written.
bool is_ours(std::string name) {
  name = name.substr(0, name.rfind(kUnfinished));
  constexpr size_t kDigits = 16;
  if (!name.ends_with(kSuffix)) return false;
  name.resize(name.size() - std::string_view(kSuffix).size());
  return name.size() > kDigits && name[name.size() - kDigits - 1] == '-' &&
         name.find_first_not_of("0123456789abcdef", name.size() - kDigits) == std::string::npos;
}

// What the names of a model's files begin with; a hash and the suffix follow.
std::string begin_of_name(const fs::path& model) { return model.filename().string().substr(0, 100) + "-"; }

// Files that no start has used for long, and what is left of those whose program was ended while writing them.
void remove_old_files(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    const std::string name = entry->path().filename().string();
    if (!is_ours(name) || entry->symlink_status(unknown).type() != fs::file_type::regular) continue;
    const auto age = fs::file_time_type::clock::now() - entry->last_write_time(unknown);
    const bool begun = name.find(kUnfinished) != std::string::npos;
    if (!unknown && age > (begun ? kAbandoned : kUnused)) fs::remove(entry->path(), unknown);
  }
}

// 0 where it cannot be known.
uint64_t stored_bytes(const fs::path& model) {
  uint64_t bytes = 0;
  try {
    for (const fs::path& file : weight_files(model)) bytes += fs::file_size(file);
  } catch (const std::exception&) {  // its loader says what is wrong
    return 0;
  }
  return bytes;
}

}  // namespace

WeightsCache::WeightsCache(fs::path file) : path_(std::move(file)) {
  if (!file_exists(path_)) return;
  struct stat about {};
  if (::stat(path_.c_str(), &about) != 0) return;
  if (about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    damage_ = path_.string() + ": others may have written it";
    return;
  }
  try {
    old_ = std::make_shared<PackedFile>(path_);
  } catch (const Error& error) {
    damage_ = error.message();
  } catch (const std::exception& error) {
    damage_ = message_of(error);
  }
}

std::shared_ptr<const std::byte> WeightsCache::take(uint64_t key, size_t bytes) {
  const PackedFile::Piece* piece = old_ ? old_->find(key) : nullptr;
  if (piece == nullptr || piece->bytes.size() != bytes) return nullptr;
  return {old_, piece->bytes.data()};
}

bool WeightsCache::is_whole(uint64_t key, std::span<const std::byte> copy) {
  const PackedFile::Piece* piece = old_->find(key);
  if (!piece->is(copy)) {
    damage_ = path_.string() + ": is damaged: a piece has another checksum than when it was written";
    return false;
  }
  taken_.insert(key);
  if (fresh_) add(key, copy.size(), [&] { fresh_->add(key, *piece); });
  return true;
}

void WeightsCache::keep(uint64_t key, std::span<const std::byte> bytes) {
  if (!fresh_ && failure_.empty()) start_file();
  add(key, bytes.size(), [&] { fresh_->add(key, bytes); });
}

template <class Fn>
void WeightsCache::unless_failed(const Fn& fn) {
  if (!failure_.empty()) return;
  try {
    fn();
  } catch (const std::exception& error) {  // the file system's, or memory for a list of keys
    failure_ = error.what();
    fresh_.reset();
  }
}

void WeightsCache::start_file() {
  unless_failed([&] {
    const fs::path folder = path_.parent_path();
    if (fs::create_directories(folder)) fs::permissions(folder, fs::perms::owner_all);
    remove_old_files(folder);
    fresh_.emplace(path_);
  });
  for (const uint64_t key : taken_) {
    const PackedFile::Piece& piece = *old_->find(key);
    add(key, piece.bytes.size(), [&] { fresh_->add(key, piece); });
  }
}

void WeightsCache::add(uint64_t key, size_t bytes, const std::function<void()>& write) {
  unless_failed([&] {
    if (!added_.insert(key).second) return;
    const uint64_t free = fs::space(path_.parent_path()).available;
    if (free < bytes + kLeftFree) {
      throw Error("packed", path_.parent_path().string() + ": has " + format_bytes(static_cast<int64_t>(free)) +
                                " free, of which " + format_bytes(kLeftFree) + " are left alone");
    }
    write();
  });
}

std::string WeightsCache::finish() {
  open_ = false;
  const std::string found = damage_.empty() ? "" : " (" + damage_ + ": packed again)";
  if (!fresh_ && failure_.empty()) {
    std::error_code ignored;
    if (old_ && !taken_.empty()) fs::last_write_time(path_, fs::file_time_type::clock::now(), ignored);
    old_.reset();
    return "";
  }
  old_.reset();  // all of it that is of use was copied
  unless_failed([&] { fresh_->commit(); });
  if (!failure_.empty()) return "packed weights are not kept for the next start: " + failure_ + found;
  const std::string size = format_bytes(static_cast<int64_t>(fresh_->bytes()));
  fresh_.reset();
  return "packed weights are kept for the next start: " + path_.string() + ", " + size +
         " (--weights-cache none: not)" + found;
}

std::string default_weights_cache() {
  const fs::path folder = user_folder(UserFolder::kCache);
  return folder.empty() ? "" : (folder / "weights").string();
}

std::unique_ptr<WeightsCache> open_weights_cache(const std::string& folder, const fs::path& model,
                                                 const std::string& device, KeptWeights kept) {
  if (folder.empty() || folder == kNone || stored_bytes(model) < kSmallModel) return nullptr;
  std::error_code error;
  const fs::path real = fs::weakly_canonical(model, error);
  const std::string what =
      (error ? model : real).string() + '\n' + device + '\n' + std::to_string(static_cast<int>(kept));
  return std::make_unique<WeightsCache>(
      fs::path(folder) / (begin_of_name(model) + hex_of(content_hash(std::as_bytes(std::span(what)))) + kSuffix));
}

int64_t remove_kept_weights(const fs::path& folder, const fs::path& model) {
  const std::string begin = begin_of_name(model);
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    constexpr size_t kDigits = 16;
    if (!is_ours(name) || !name.starts_with(begin) || name.find(kSuffix) != begin.size() + kDigits) continue;
    if (entry->symlink_status(unknown).type() != fs::file_type::regular) continue;
    const auto size = static_cast<int64_t>(entry->file_size(unknown));
    if (!unknown && fs::remove(entry->path(), unknown)) bytes += size;
  }
  return bytes;
}

}  // namespace ashlar
