#include "app/pulling.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/interrupt.h"
#include "app/model_locator.h"
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

bool is_missing(const std::string& name) {
  if (name.empty() || name == "none" || std::filesystem::exists(name)) return false;
  const auto ref = hub_name(name);
  return ref && !hub::find_cached(*ref, hub::settings_from_environment());
}

}  // namespace

hub::PullResult pull_with_bar(const hub::RepoRef& ref, hub::PullOptions options) {
  PullBar bar(ref.repo);
  options.progress = [&](const hub::PullProgress& progress) { bar.update(progress); };
  options.retry.on_wait = [](double seconds, const std::string& why) {
    char time[32];
    std::snprintf(time, sizeof time, "%.0f s", std::ceil(seconds));
    print_note(why + "; trying again in " + time);
  };
  if (!options.settings.offline) print_note("fetching " + ref.repo + " from " + options.settings.endpoint);
  return hub::pull(ref, options);
}

std::vector<std::string> missing_models(const SessionOptions& options) {
  std::vector<std::string> out;
  for (const std::string& name : {options.model, options.drafter}) {
    if (is_missing(name)) out.push_back(name);
  }
  return out;
}

void pull_missing(const SessionOptions& session) {
  for (const std::string& name : missing_models(session)) {
    hub::PullOptions options;
    options.settings = hub::settings_from_environment();
    options.stopped = InterruptScope::requested;
    const InterruptScope interrupts;
    pull_with_bar(*hub_name(name), options);
  }
}

}  // namespace ashlar
