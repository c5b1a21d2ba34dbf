#include <cstdio>
#include <memory>

#include "app/commands/commands.h"
#include "app/pulling.h"
#include "base/clock.h"
#include "base/error.h"
#include "session/interrupt.h"
#include "session/model_locator.h"
#include "session/progress.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

struct PullCommand {
  std::string model;
  bool all = false;
};

std::string summary(const hub::PullResult& result, double seconds) {
  if (result.fetched == 0) return std::to_string(result.files) + " files, all there already";
  const auto rate = static_cast<int64_t>(static_cast<double>(result.fetched) / std::max(seconds, 1e-3));
  char time[32];
  std::snprintf(time, sizeof time, "%.1f s", seconds);
  return std::to_string(result.files) + " files, " + bytes_text(result.bytes) + "; fetched " +
         bytes_text(result.fetched) + " in " + time + ", " + bytes_text(rate) + "/s";
}

void pull(const PullCommand& command) {
  const auto ref = hub::parse_repo_ref(command.model);
  if (!ref) {
    throw CLI::ValidationError(
        "MODEL", "\"" + command.model + "\" is no name of a model; expected ORG/MODEL or ORG/MODEL@REVISION");
  }
  hub::PullOptions options;
  options.settings = hub::settings_from_environment();
  options.role = role_of(*ref, hub::Role::kModel);  // only what is here can say
  options.all_files = command.all;
  options.stopped = InterruptScope::requested;
  const InterruptScope interrupts;
  hub::PullResult result;
  const int64_t start = now_ns();
  try {
    result = pull_with_bar(*ref, options);
  } catch (const Error& error) {
    if (!InterruptScope::requested()) throw;
    print_note(error.what());
    throw CLI::RuntimeError(kInterruptedExit);
  }
  if (!options.settings.offline) print_note(summary(result, static_cast<double>(now_ns() - start) * 1e-9));
  const std::string warning = warning_about_pulled(*ref, hub::Role::kModel);
  if (!warning.empty()) print_warning(warning);
  std::printf("%s\n", result.snapshot.c_str());
}

}  // namespace

CLI::App* add_pull_command(CLI::App& app) {
  auto options = std::make_shared<PullCommand>();
  CLI::App* command = app.add_subcommand("pull", "Fetch a model from the Hugging Face hub, or bring it up to date");
  command->add_option("MODEL", options->model, "ORG/MODEL, or ORG/MODEL@REVISION for a branch, tag or commit")
      ->required()
      ->type_name("");
  command->add_flag("--all", options->all, "Fetch every file, not only what is needed to run the model");
  command->footer(
      "Files go to the cache of the hub's own tools (HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub); an "
      "interrupted\n"
      "pull goes on where it ended. What is fetched is checked by its hash; of a file that is there already only the "
      "length\n"
      "is compared: to have it fetched and checked again, remove what it links to. HF_TOKEN opens private and gated "
      "models,\n"
      "HF_ENDPOINT names another hub, HF_HUB_OFFLINE=1 forbids the network. Prints the model's folder; other commands "
      "then\n"
      "take ORG/MODEL.\n"
      "Examples:\n"
      "  ashlar pull Qwen/Qwen3-0.6B\n"
      "  ashlar run Qwen/Qwen3-0.6B --prompt \"What is a harbour?\"");
  command->callback([options] { pull(*options); });
  return command;
}

}  // namespace ashlar
