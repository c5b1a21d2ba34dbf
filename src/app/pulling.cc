// SPDX-License-Identifier: Apache-2.0
#include "app/pulling.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "decode/drafters.h"
#include "session/interrupt.h"
#include "session/models/known_drafters.h"
#include "session/models/model_locator.h"
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

// The model that is meant by the name of a drafter, as far as that is here already, and the model is not.
std::string missing_verifier(const std::string& name) {
  std::filesystem::path folder = name;
  if (const auto ref = hub_name(name); ref && !std::filesystem::exists(name)) {
    folder = find_pulled(*ref, hub::Role::kModel).folder;
  }
  std::error_code failed;
  if (folder.empty() || !std::filesystem::exists(folder / "config.json", failed)) return {};
  try {
    if (!is_drafter_folder(folder)) return {};
  } catch (const Error&) {  // its loader says what is wrong with it
    return {};
  }
  try {
    locate_models(name, "none", model_roots());
    return {};
  } catch (const Error&) {  // it is to be fetched
    return verifier_of(folder);
  }
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
  add_if_missing(missing_verifier(options.model), hub::Role::kModel, out);
  add_if_missing(options.drafter, hub::Role::kDrafter, out);
  return out;
}

void pull_missing(const SessionOptions& session) {
  // What a drafter is for is known when it is here: then the model, in a second round.
  for (int round = 0; round < 2; ++round) {
    for (const MissingModel& model : missing_models(session)) {
      hub::PullOptions options;
      options.settings = hub::settings_from_environment();
      options.role = model.role;
      options.stopped = InterruptScope::requested;
      const InterruptScope interrupts;
      warn_of_unchecked(pull_with_bar(model.ref, options));
      const std::string warning = warning_about_pulled(model.ref, model.role);
      if (!warning.empty()) throw Error("hub", warning);
    }
  }
}

void warn_of_unchecked(const hub::PullResult& result) {
  if (result.unchecked == 0) return;
  print_warning("the hub has no digests of " + std::to_string(result.unchecked) + " of " +
                std::to_string(result.files) + " files: their lengths were checked, what is in them was not");
}

std::string offer_of_drafter(const hub::RepoRef& model) {
  try {
    const auto drafter = drafter_for(model.repo, drafter_table(own_drafter_table()));
    if (!drafter || find_pulled(*drafter, hub::Role::kDrafter).whole()) return {};
    return "a drafter for it: " + hub::name_of(*drafter) + "; --with-drafter fetches that too";
  } catch (const Error& error) {  // of a table that is asked without need
    return error.what();
  }
}

std::string warning_about_pulled(const hub::RepoRef& ref, hub::Role role) {
  const hub::CachedSnapshot here = find_pulled(ref, role);
  if (here.missing.empty()) return {};
  return hub::name_of(ref) + " holds no " + hub::list_of_missing(here.missing) +
         ", without which it cannot be loaded; expected config.json, tokenizer.json or tokenizer.model, and "
         "model.safetensors or its shards with their index";
}

}  // namespace ashlar
