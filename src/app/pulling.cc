#include "app/pulling.h"

#include <filesystem>
#include <memory>

#include "app/interrupt.h"
#include "app/progress.h"
#include "app/terminal.h"

namespace ashlar {
namespace {

// The bar appears when all lengths are known.
class PullBar {
 public:
  explicit PullBar(std::string label) : label_(std::move(label)) {}
  void update(const hub::PullProgress& progress) {
    if (!bar_ && progress.bytes_total > 0) {
      bar_ = std::make_unique<Progress>(label_, progress.bytes_total, ProgressUnit::kBytes, progress.bytes_done);
    }
    if (bar_) bar_->update(progress.bytes_done);
  }

 private:
  std::string label_;
  std::unique_ptr<Progress> bar_;
};

void pull_if_missing(const std::string& name) {
  if (name.empty() || name == "none" || std::filesystem::exists(name)) return;
  const auto ref = hub::parse_repo_ref(name);
  if (!ref) return;
  hub::PullOptions options;
  options.settings = hub::settings_from_environment();
  if (hub::find_cached(*ref, options.settings)) return;
  options.stopped = InterruptScope::requested;
  const InterruptScope interrupts;
  print_note("fetching " + name + " from the hub");
  pull_with_bar(*ref, options);
}

}  // namespace

hub::PullResult pull_with_bar(const hub::RepoRef& ref, hub::PullOptions options) {
  PullBar bar(ref.repo);
  options.progress = [&](const hub::PullProgress& progress) { bar.update(progress); };
  return hub::pull(ref, options);
}

void pull_missing(const SessionOptions& options) {
  pull_if_missing(options.model);
  pull_if_missing(options.drafter);
}

}  // namespace ashlar
