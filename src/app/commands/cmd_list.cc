// SPDX-License-Identifier: Apache-2.0
// Models that are on this machine: list, and rm for those that were pulled.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "app/commands/commands.h"
#include "app/figures.h"
#include "hub/settings.h"
#include "session/models/local_models.h"
#include "session/models/model_locator.h"
#include "session/output.h"
#include "session/progress.h"
#include "session/terminal.h"
#include "session/weights_cache.h"

namespace ashlar {
namespace {

void list_models(bool json) {
  const std::filesystem::path cache = hub::settings_from_environment().cache;
  const std::vector<LocalModel> models = local_models(model_roots(), cache);
  if (models.empty() && !json) {
    print_note("there are no models here; ashlar pull ORG/MODEL fetches one, such as Qwen/Qwen3-0.6B");
    return;
  }
  size_t width = 4;
  int64_t pulled = 0;
  for (const LocalModel& model : models) width = std::max(width, for_message(model.name).size());
  if (!json) write_output("NAME" + std::string(width - 4, ' ') + "       SIZE  KIND\n");
  for (const LocalModel& model : models) {
    const std::string kind = model.drafter ? "drafter" : "model", name = for_message(model.name);
    const int64_t bytes = bytes_on_disk(model.folder);
    if (model.pulled) pulled += bytes;
    if (json) {
      write_output(dump_line(Json{{"name", model.name},
                                  {"bytes", bytes},
                                  {"kind", kind},
                                  {"pulled", model.pulled},
                                  {"path", model.folder.string()}}) +
                   "\n");
      continue;
    }
    const std::string size = bytes_text(bytes);
    const std::string pad(size.size() < 9 ? 9 - size.size() : 0, ' ');
    write_output(name + std::string(width - name.size() + 2, ' ') + pad + size + "  " + kind +
                 (model.pulled ? ", pulled" : "") + "\n");
  }
  if (!json && pulled > 0)
    print_note(bytes_text(pulled) + " pulled to " + cache.string() + "; ashlar rm ORG/MODEL frees them");
}

}  // namespace

CLI::App* add_list_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("list", "Models on this machine: bundled and pulled ones, with their sizes");
  command->add_flag("--json", *json, "One JSON object a line for each model");
  command->footer(
      "Pulled models lie in the cache of the hub's own tools (see ashlar pull --help). A folder or .gguf file of "
      "yours\n"
      "elsewhere is not listed: name it by its path.");
  command->callback([json] { list_models(*json); });
  return command;
}

CLI::App* add_rm_command(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("rm", "Remove a pulled model from this machine");
  command->add_option("MODEL", *name, "ORG/MODEL, as ashlar list has it")->required()->type_name("");
  command->footer(
      "All versions that were pulled go, and what earlier starts kept of their rounded weights, where that is the "
      "usual\n"
      "folder or that of ASHLAR_WEIGHTS_CACHE. It is fetched again by ashlar pull ORG/MODEL.");
  command->callback([name] {
    const char* named = std::getenv("ASHLAR_WEIGHTS_CACHE");
    const std::string kept = named == nullptr || std::string(named) == "none" ? "" : named;
    const int64_t bytes =
        remove_pulled(*name, hub::settings_from_environment().cache,
                      kept.empty() ? std::filesystem::path(default_weights_cache()) : std::filesystem::path(kept));
    print_note(*name + " is removed; that frees " + bytes_text(bytes));
  });
  return command;
}

}  // namespace ashlar
