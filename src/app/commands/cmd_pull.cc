// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "app/commands/commands.h"
#include "app/pulling.h"
#include "base/clock.h"
#include "base/error.h"
#include "session/interrupt.h"
#include "session/models/known_drafters.h"
#include "session/models/local_models.h"
#include "session/models/model_locator.h"
#include "session/progress.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

struct PullCommand {
  std::string model;
  bool all = false;
  bool with_drafter = false;
};

std::string summary(const hub::PullResult& result, double seconds) {
  if (result.fetched == 0) return std::to_string(result.files) + " files, all there already";
  const auto rate = static_cast<int64_t>(static_cast<double>(result.fetched) / std::max(seconds, 1e-3));
  char time[32];
  std::snprintf(time, sizeof time, "%.1f s", seconds);
  return std::to_string(result.files) + " files, " + bytes_text(result.bytes) + "; fetched " +
         bytes_text(result.fetched) + " in " + time + ", " + bytes_text(rate) + "/s";
}

// Fetches one repository: its folder.
std::filesystem::path pull_one(const hub::RepoRef& ref, hub::Role role, bool all) {
  hub::PullOptions options;
  options.settings = hub::settings_from_environment();
  options.role = role;
  options.all_files = all;
  options.stopped = InterruptScope::requested;
  const InterruptScope interrupts;
  hub::PullResult result;
  const int64_t start = now_ns();
  try {
    result = pull_with_bar(ref, options);
  } catch (const Error& error) {
    if (!InterruptScope::requested()) throw;
    print_note(error.what());
    throw CLI::RuntimeError(kInterruptedExit);
  }
  if (!options.settings.offline) print_note(summary(result, static_cast<double>(now_ns() - start) * 1e-9));
  warn_of_unchecked(result);
  const std::string warning = warning_about_pulled(ref, role);
  if (!warning.empty()) print_warning(warning);
  return result.snapshot;
}

void pull(const PullCommand& command) {
  const auto ref = hub::parse_repo_ref(command.model);
  if (!ref) {
    const std::string repo = hub::repo_of_address(command.model);
    throw CLI::ValidationError("MODEL", "\"" + command.model +
                                            "\" is no name of a model; expected ORG/MODEL or ORG/MODEL@REVISION" +
                                            (repo.empty() ? about_tag(command.model) : ": ashlar pull " + repo));
  }
  std::optional<hub::RepoRef> drafter;
  if (command.with_drafter) {
    drafter = drafter_for(ref->repo, drafter_table(own_drafter_table()));
    if (!drafter) {
      throw CLI::ValidationError("--with-drafter", "no drafter is known for " + ref->repo + "; name one in " +
                                                       own_drafter_table().string() + ", or pull it by its own name");
    }
  }
  const auto folder = pull_one(*ref, role_of(*ref, hub::Role::kModel), command.all);  // only what is here can say
  std::printf("%s\n", folder.c_str());
  if (drafter) {
    print_note("the drafter is in " + pull_one(*drafter, hub::Role::kDrafter, command.all).string());
  } else if (const std::string offer = offer_of_drafter(*ref); !offer.empty()) {
    print_note(offer);
  }
}

}  // namespace

CLI::App* add_pull_command(CLI::App& app) {
  auto options = std::make_shared<PullCommand>();
  CLI::App* command = app.add_subcommand("pull", "Fetch a model from the Hugging Face hub, or bring it up to date");
  command->add_option("MODEL", options->model, "ORG/MODEL, or ORG/MODEL@REVISION for a branch, tag or commit")
      ->required()
      ->type_name("");
  command->add_flag("--all", options->all, "Fetch every file, not only what is needed to run the model");
  command->add_flag("--with-drafter", options->with_drafter,
                    "Fetch the drafter that was published for the model too; run and serve then use it");
  command->footer(
      "Files go to the cache of the hub's own tools (HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub); an "
      "interrupted\n"
      "pull goes on where it ended. What is fetched is checked by its hash; of a file that is there already only the "
      "length\n"
      "is compared: to have it fetched and checked again, remove what it links to. HF_TOKEN opens private and gated "
      "models,\n"
      "HF_ENDPOINT names another hub, HF_HUB_OFFLINE=1 forbids the network. Prints the model's folder; other commands "
      "then\n"
      "take ORG/MODEL. Which drafter belongs to which model is known of published ones; a JSON object\n"
      "{\"ORG/MODEL\": \"ORG/DRAFTER\"} in ~/.config/ashlar/drafters.json adds to that.\n"
      "Examples:\n"
      "  ashlar pull Qwen/Qwen3-0.6B\n"
      "  ashlar run Qwen/Qwen3-0.6B --prompt \"What is a harbour?\"");
  command->callback([options] { pull(*options); });
  return command;
}

}  // namespace ashlar
