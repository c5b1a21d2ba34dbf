// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions to the hub, each asked again after failures that pass.

#include <exception>
#include <functional>
#include <string>

#include "hub/file_list.h"
#include "hub/names.h"
#include "hub/transfer.h"

namespace ashlar::hub {

/// How patient we are with a server or a line that fails.
struct RetryPolicy {
  int attempts = 6;           ///< in a row without getting anywhere
  double first_wait_s = 1.0;  ///< doubled each time
  double longest_wait_s = 60.0;
  std::function<void(double seconds, const std::string& why)> on_wait{};  ///< called for each; from several threads
};

/// Thrown through our own code when `stopped` said so; never leaves the library.
struct Stopped : std::exception {};

/// Counts failures in a row and waits between them.
class Retries {
 public:
  Retries(const RetryPolicy& policy, std::function<bool()> stopped) : policy_(policy), stopped_(std::move(stopped)) {}
  /// After a failure: false if there were too many; else waits, `retry_after_s` at the least (at most the policy's
  /// longest wait), and returns true. `why`: for RetryPolicy::on_wait. Throws Stopped.
  bool again(int64_t retry_after_s, const std::string& why);
  /// Something was achieved: the count begins anew.
  void progress() { failures_ = 0; }
  int failures() const { return failures_; }

 private:
  RetryPolicy policy_;
  std::function<bool()> stopped_;
  int failures_ = 0;
};

/// A file as the hub describes it.
struct RemoteFile {
  std::string path;
  std::string url;
  Etag etag;
  int64_t size = 0;  ///< bytes
};

/// Whether a status may be another one a little later: 408, 429 and most of 5xx.
bool is_passing(long status);
/// What went wrong with an exchange that is worth another try, in words.
std::string why_again(const Exchange& exchange);
/// Throws Error("hub", ...) that says what `exchange` means for `what`: who refused it and what to do. `advice`: what
/// to do about an exchange that was not whole.
[[noreturn]] void throw_refused(const Exchange& exchange, const std::string& what, const Settings& settings,
                                const std::string& advice);

class Remote {
 public:
  Remote(const Settings& settings, RetryPolicy policy, std::function<bool()> stopped);

  /// Commit and files of a revision. Throws Error("hub", ...).
  RepoInfo info(const RepoRef& ref);
  /// Content name and size of a file. Without a digest from the server the name is made of commit, path and size
  /// (EtagKind::kNone). Throws Error("hub", ...), also if the size is not known.
  RemoteFile file(const std::string& repo, const std::string& commit, const std::string& path);
  Transfer& transfer() { return transfer_; }

 private:
  Exchange ask(const TransferRequest& request, const std::string& what, const std::function<void()>& before);

  Settings settings_;
  RetryPolicy policy_;
  std::function<bool()> stopped_;
  Transfer transfer_;
};

}  // namespace ashlar::hub
