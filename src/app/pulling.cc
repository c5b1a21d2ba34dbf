#include "app/pulling.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "session/interrupt.h"
#include "session/model_locator.h"
#include "session/progress.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

// The bar appears when all lengths are known. Several threads fetch, and each may have something to say.
class PullBar {
 public:
  explicit PullBar(std::string label) : label_(std::move(label)) {}
  void update(const hub::PullProgress& progress) {
    const std::lock_guard lock(mutex_);
    if (!bar_ && progress.bytes_total > 0) {
      bar_ = std::make_unique<Progress>(label_, progress.bytes_total, ProgressUnit::kBytes, progress.bytes_done);
    }
    if (bar_) bar_->update(progress.bytes_done);
  }
  // A line of its own, not after the bar.
  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (bar_) bar_->hide();
    print_note(text);
  }

 private:
  std::mutex mutex_;
  std::string label_;
  std::unique_ptr<Progress> bar_;
};

void add_if_missing(const std::string& name, hub::Role role, std::vector<MissingModel>& out) {
  if (name.empty() || name == "none" || std::filesystem::exists(name)) return;
  const auto ref = hub_name(name);
  if (!ref) return;
  const hub::CachedSnapshot here = find_pulled(*ref, role);
  if (!here.whole()) out.push_back({*ref, role, here});
}

}  // namespace

hub::PullResult pull_with_bar(const hub::RepoRef& ref, hub::PullOptions options) {
  PullBar bar(ref.repo);
  options.progress = [&](const hub::PullProgress& progress) { bar.update(progress); };
  options.retry.on_wait = [&bar](double seconds, const std::string& why) {
    char time[32];
    std::snprintf(time, sizeof time, "%.0f s", std::ceil(seconds));
    bar.note(why + "; trying again in " + time);
  };
  if (!options.settings.offline)
    print_note("fetching " + ref.repo + " from " + hub::without_password(options.settings.endpoint));
  return hub::pull(ref, options);
}

std::vector<MissingModel> missing_models(const SessionOptions& options) {
  std::vector<MissingModel> out;
  add_if_missing(options.model, hub::Role::kModel, out);
  add_if_missing(options.drafter, hub::Role::kDrafter, out);
  return out;
}

void pull_missing(const SessionOptions& session) {
  for (const MissingModel& model : missing_models(session)) {
    hub::PullOptions options;
    options.settings = hub::settings_from_environment();
    options.role = model.role;
    options.stopped = InterruptScope::requested;
    const InterruptScope interrupts;
    pull_with_bar(model.ref, options);
    const std::string warning = warning_about_pulled(model.ref, model.role);
    if (!warning.empty()) throw Error("hub", warning);
  }
}

std::string warning_about_pulled(const hub::RepoRef& ref, hub::Role role) {
  const hub::CachedSnapshot here = find_pulled(ref, role);
  if (here.missing.empty()) return {};
  return hub::name_of(ref) + " holds no " + hub::list_of_missing(here.missing) +
         ", without which it cannot be loaded; expected config.json, tokenizer.json and model.safetensors or its "
         "shards with their index";
}

}  // namespace ashlar
