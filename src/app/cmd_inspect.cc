#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/figures.h"
#include "app/flags.h"
#include "app/inspect.h"
#include "app/output.h"
#include "base/error.h"

namespace ashlar {
namespace {

struct InspectOptions {
  SessionOptions session;
  bool json = false;
};

constexpr std::string_view kSuffix = "-dflash";

// A drafter folder stands for its target with it, if the target lies beside it.
bool is_lone_drafter(SessionOptions& options) {
  namespace fs = std::filesystem;
  if (!options.drafter.empty() || !fs::exists(fs::path(options.model) / "config.json") ||
      !is_dflash_folder(options.model))
    return false;
  std::string path = fs::path(options.model).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  options.drafter = path;
  if (path.size() > kSuffix.size() && path.ends_with(kSuffix) &&
      fs::is_directory(path.substr(0, path.size() - kSuffix.size()))) {
    options.model = path.substr(0, path.size() - kSuffix.size());
    return false;
  }
  return true;
}

void add_self_test(Json& report, const SessionOptions& options) {
  Session session(options);
  const DrafterCheck check = check_drafter(session);
  report["drafter"]["self_test"] = self_test_json(check);
  const std::string complaint = complaint_about(check);
  if (!complaint.empty()) print_warning(complaint);
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
    const bool usable =
        choice.drafter && report["drafter"]["fits"].get<bool>() && !report["tokenizer"].contains("problem");
    if (usable && options.session.self_test) add_self_test(report, options.session);
  }
  const std::string text =
      options.json ? report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : report_text(report);
  write_output(text);
}

}  // namespace

CLI::App* add_inspect_command(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Tell what a model folder holds, needs, and how its drafter does");
  command->add_flag("--json", options->json, "The report as JSON");
  add_session_flags(*command, options->session);
  command->callback([options] { inspect(*options); });
  return command;
}

}  // namespace ashlar
