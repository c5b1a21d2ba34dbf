// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/command_line/flags.h"
#include "app/commands/commands.h"
#include "app/figures.h"
#include "app/inspect.h"
#include "base/error.h"
#include "decode/drafters.h"
#include "io/weights/gguf.h"
#include "session/models/model_locator.h"
#include "session/output.h"
#include "session/terminal.h"
#include "session/with_room.h"

namespace ashlar {
namespace {

struct InspectOptions {
  SessionOptions session;
  bool json = false;
};

// A drafter's folder or file stands for its target with it, if the target lies next to it.
bool is_lone_drafter(SessionOptions& options) {
  namespace fs = std::filesystem;
  if (!options.drafter.empty() || !is_drafter_folder(options.model)) return false;
  std::string path = fs::path(options.model).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  options.drafter = path;
  for (const std::string_view suffix : kDrafterSuffixes) {
    const std::string name = is_gguf(path) ? fs::path(path).replace_extension().string() : path;
    if (!name.ends_with(suffix)) continue;
    const std::string target = name.substr(0, name.size() - suffix.size());
    for (const std::string& model : {target, target + ".gguf"}) {
      if (!fs::exists(model)) continue;
      options.model = model;
      return false;
    }
  }
  return true;
}

// Loads what the folder holds, as long as there is memory for it, and has the drafter draft.
void try_out(Json& report, Ops& ops, const std::filesystem::path& model, const SessionOptions& options) {
  const bool fits = report.contains("drafter") && report["drafter"]["fits"].get<bool>();
  if (!fits || report["tokenizer"].contains("problem") || report.contains("chat_template_problem")) {
    if (report["weights"]["bytes"] < report["memory"]["available_bytes"]) Model::load(ops, model);
    return;
  }
  const std::unique_ptr<Session> session = with_room(options);
  if (session->ops().name() != ops.name()) print_note(session->notes().front());
  const DrafterCheck check = check_drafter(*session);
  report["drafter"]["self_test"] = self_test_json(check);
  const std::string warning = warning_about(check);
  if (!warning.empty()) print_warning(warning);
}

// Whether `run` would refuse, or would not draft as it was asked to.
bool has_problem(const Json& report) {
  const auto says = [&report](const char* part, const char* key) {
    return report.contains(part) && report[part].contains(key);
  };
  return report.contains("problem") || report.contains("chat_template_problem") || says("tokenizer", "problem") ||
         says("drafter", "problem");
}

void inspect(InspectOptions& options) {
  Json report;
  if (is_lone_drafter(options.session)) {
    report["drafter"] = inspect_drafter(options.session.drafter);
  } else {
    const ModelChoice choice = locate_models(options.session.model, options.session.drafter, model_roots());
    const std::unique_ptr<Ops> ops = make_device(options.session.device, options.session.device_options);
    report =
        inspect_model(*ops, choice.model, choice.drafter, options.session.dflash, options.session.engine.max_sequences);
    try {
      if (options.session.self_test && !report.contains("problem"))
        try_out(report, *ops, choice.model, options.session);
    } catch (const Error& error) {
      report["problem"] = error.what();
    }
  }
  const std::string text =
      options.json ? report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : report_text(report);
  write_output(text);
  if (has_problem(report)) throw CLI::RuntimeError(1);
}

}  // namespace

CLI::App* add_inspect_command(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a model holds and needs, and how its drafter does");
  command->add_flag("--json", options->json, "The report as JSON");
  add_session_flags(*command, options->session);
  command->callback([options] { inspect(*options); });
  return command;
}

}  // namespace ashlar
