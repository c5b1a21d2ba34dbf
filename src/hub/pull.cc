// SPDX-License-Identifier: Apache-2.0
#include "hub/pull.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/file_list.h"
#include "hub/file_lock.h"

namespace ashlar::hub {
namespace {

namespace fs = std::filesystem;

std::string in_gigabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", static_cast<double>(bytes) * 1e-9);
  return text;
}

void add_bytes(int64_t& total, int64_t bytes, const RepoRef& ref) {
  if (!__builtin_add_overflow(total, bytes, &total)) return;
  throw Error("hub", ref.repo + ": the hub announces files of more than 9 billion GB; no model is so large");
}

// One pull: the state its threads share.
class Pull {
 public:
  Pull(const RepoRef& ref, const PullOptions& options)
      : ref_(ref), options_(options), cache_(options.settings.cache, ref.repo) {}

  PullResult run() {
    const RepoInfo info = Remote(options_.settings, options_.retry, [this] { return stopped(); }).info(ref_);
    choose(info);
    const FileLock lock(
        cache_.pull_lock(), [this] { return stopped(); }, FileLock::Kind::kShared);
    if (!lock.held()) throw Stopped();
    progress_.files_total = static_cast<int>(files_.size());
    in_parallel([&](Remote& remote, size_t i) { files_[i] = remote.file(ref_.repo, info.commit, files_[i].path); });
    plan();
    in_parallel([&](Remote& remote, size_t i) { fetch(remote, files_[i], there_[i]); });
    for (const RemoteFile& file : files_) cache_.link(info.commit, file.path, file.etag);
    cache_.write_ref(ref_.revision, info.commit);
    const auto unchecked = std::count_if(files_.begin(), files_.end(),
                                         [](const RemoteFile& file) { return file.etag.kind == EtagKind::kNone; });
    return {cache_.snapshot(info.commit), info.commit,       progress_.files_total,
            progress_.bytes_total,        progress_.fetched, static_cast<int>(unchecked)};
  }

 private:
  bool stopped() const { return failed_ || (options_.stopped && options_.stopped()); }

  void choose(const RepoInfo& info) {
    const std::vector<std::string> wanted = options_.all_files ? info.files : engine_files(info.files);
    const bool weights = std::any_of(wanted.begin(), wanted.end(),
                                     [](const std::string& file) { return file.ends_with(".safetensors"); });
    if (!weights && !options_.all_files) {
      throw Error("hub", ref_.repo + "@" + ref_.revision +
                             " holds no .safetensors weights at its top, and no others can "
                             "be loaded; --all fetches everything that it holds");
    }
    for (const std::string& path : wanted) files_.emplace_back().path = path;
  }

  // Sizes are known: largest files first, and room for all of them.
  void plan() {
    std::stable_sort(files_.begin(), files_.end(),
                     [](const RemoteFile& a, const RemoteFile& b) { return a.size > b.size; });
    int64_t missing = 0;
    for (const RemoteFile& file : files_) {
      there_.push_back(bytes_there(cache_, file));
      add_bytes(progress_.bytes_total, file.size, ref_);
      missing += file.size - there_.back();  // no more than the sum above
      done_ += there_.back();
    }
    make_folders(cache_.folder());
    std::error_code unknown;
    const fs::space_info space = fs::space(cache_.folder(), unknown);
    if (!unknown && static_cast<uint64_t>(missing) > space.available) {
      throw Error("hub", ref_.repo + " needs " + in_gigabytes(missing) + " more in " +
                             options_.settings.cache.string() + ", where " +
                             in_gigabytes(static_cast<int64_t>(space.available)) +
                             " are free; free some space, or set HF_HUB_CACHE to a folder on another disk");
    }
    show();
  }

  void fetch(Remote& remote, const RemoteFile& file, int64_t& there) {
    DownloadContext context;
    context.settings = &options_.settings;
    context.retry = options_.retry;
    context.stopped = [this] { return stopped(); };
    context.progress = [&](int64_t have) {
      const std::lock_guard lock(mutex_);
      done_ += have - there;
      there = have;
      show();
    };
    const int64_t fetched = download(remote.transfer(), cache_, file, context);
    const std::lock_guard lock(mutex_);
    progress_.fetched += fetched;
    ++progress_.files_done;
    show();
  }

  // A file that has to begin anew takes bytes back: the bar waits instead.
  void show() {
    progress_.bytes_done = std::max(progress_.bytes_done, done_);
    if (options_.progress) options_.progress(progress_);
  }

  /// Calls work(remote, i) for each file; the first error ends all and is thrown.
  template <class Work>
  void in_parallel(const Work& work) {
    std::atomic<size_t> next{0};
    std::exception_ptr error;
    const auto worker = [&] {
      try {
        Remote remote(options_.settings, options_.retry, [this] { return stopped(); });
        remote.transfer().expect_hosts();  // the list of files came
        for (size_t i; !stopped() && (i = next.fetch_add(1)) < files_.size();) work(remote, i);
      } catch (const Stopped&) {
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error) error = std::current_exception();
        failed_ = true;
      }
    };
    std::vector<std::thread> threads;
    const size_t count = std::min<size_t>(std::max(1, options_.parallel), files_.size());
    for (size_t i = 0; i < count; ++i) threads.emplace_back(worker);
    for (std::thread& thread : threads) thread.join();
    if (error) std::rethrow_exception(error);
    if (stopped()) throw Stopped();
  }

  const RepoRef& ref_;
  const PullOptions& options_;
  RepoCache cache_;
  std::vector<RemoteFile> files_;
  std::vector<int64_t> there_;  // bytes of each file
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards what follows while threads run
  PullProgress progress_;
  int64_t done_ = 0;
};

}  // namespace

std::string CachedSnapshot::warning(const RepoRef& ref, const Settings& settings) const {
  const std::string name = name_of(ref), cache = settings.cache.string();
  if (folder.empty()) return name + " is not in " + cache;
  return name + " is not wholly in " + cache + ": it lacks " + list_of_missing(missing);
}

CachedSnapshot look_up(const RepoRef& ref, const Settings& settings, Role role) {
  const RepoCache cache(settings.cache, ref.repo);
  const auto commit = cache.commit_of(ref.revision);
  std::error_code failed;
  if (!commit || !fs::is_directory(cache.snapshot(*commit), failed)) return {};
  return {cache.snapshot(*commit), missing_files(cache.snapshot(*commit), role)};
}

std::optional<fs::path> find_cached(const RepoRef& ref, const Settings& settings, Role role) {
  const CachedSnapshot found = look_up(ref, settings, role);
  if (!found.whole()) return std::nullopt;
  return found.folder;
}

PullResult pull(const RepoRef& ref, const PullOptions& options) {
  if (options.settings.offline) {
    const CachedSnapshot found = look_up(ref, options.settings, options.role);
    if (!found.whole()) {
      throw Error("hub", found.warning(ref, options.settings) +
                             ", and HF_HUB_OFFLINE forbids to fetch it; without that variable: ashlar pull " +
                             name_of(ref));
    }
    PullResult result;
    result.snapshot = found.folder;
    result.commit = found.folder.filename().string();
    return result;
  }
  try {
    return Pull(ref, options).run();
  } catch (const Stopped&) {
    throw Error("hub", "the pull of " + ref.repo + " was stopped; pull again to go on where it ended");
  }
}

fs::path ensure(const RepoRef& ref, const PullOptions& options) {
  if (const auto snapshot = find_cached(ref, options.settings, options.role)) return *snapshot;
  return pull(ref, options).snapshot;
}

}  // namespace ashlar::hub
