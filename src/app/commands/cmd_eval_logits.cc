// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/command_line/flags.h"
#include "app/commands/commands.h"
#include "app/eval_text.h"
#include "base/error.h"
#include "measure/evaluation/logit_divergence.h"
#include "measure/report/report_file.h"
#include "session/output.h"
#include "session/progress.h"
#include "session/terminal.h"
#include "session/with_room.h"

namespace ashlar {
namespace {

struct LogitsCommand {
  SessionOptions session;
  TextStudy text;
  std::string against;
};

std::unique_ptr<Session> load(const SessionOptions& options) {
  std::unique_ptr<Session> session;
  {
    const Activity activity("loading the model");
    session = with_room(options);
  }
  if (!options.quiet) {
    for (const std::string& note : session->notes()) print_note(note);
  }
  if (session->is_block_diffusion()) {
    throw Error("eval",
                session->choice().model.string() +
                    ": fills blocks; next-token distributions are compared of models that predict the next token");
  }
  return session;
}

void evaluate(LogitsCommand& options) {
  ReportFile json_file(options.text.json);
  options.session.drafter = "none";
  options.session.engine.kv_pages = 1;  // no engine runs: memory is for the weights of both
  SessionOptions base_options = options.session;
  if (!options.against.empty()) base_options.model = options.against;
  base_options.device_options.weights = KeptWeights::kExact;
  const std::unique_ptr<Session> base = load(base_options), session = load(options.session);
  const std::string names = base->choice().model.string() + " and " + session->choice().model.string();
  if (base->options().device != session->options().device) {
    throw Error("eval", names + ": run on " + base->options().device + " and " + session->options().device +
                            "; distributions compare where both run on one device: name it with --device");
  }
  if (base->config().vocab != session->config().vocab) {
    throw Error("eval", names + ": have " + std::to_string(base->config().vocab) + " and " +
                            std::to_string(session->config().vocab) +
                            " tokens; distributions compare over the same ones");
  }
  const auto windows = read_windows(*session, options.text);
  if (windows != read_windows(*base, options.text)) {
    throw Error("eval", names + ": make other tokens of " + options.text.text +
                            "; distributions compare where both read the same");
  }
  const PerplexityOptions& study = options.text.study;
  LogitDivergence result;
  {
    Progress progress("windows", static_cast<int64_t>(windows.size()));
    result =
        measure_divergence(base->model(), session->model(), windows, study, [&](int64_t n) { progress.update(n); });
  }
  write_output(divergence_text(result, study));
  if (!json_file.wanted()) return;
  Json json = describe_text_study(*session, options.text);
  json["against"] = base->choice().model.string();
  json.update(divergence_json(result, study));
  json_file.write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

void add_eval_logits_command(CLI::App& eval) {
  auto options = std::make_shared<LogitsCommand>();
  CLI::App* command = eval.add_subcommand("logits", "How far its distributions are from another model's, over a text");
  add_text_flags(*command, options->text);
  command->add_option("--against", options->against, "The model to compare with, its weights exact (default: itself)")
      ->type_name("MODEL");
  add_session_flags(*command, options->session);
  command->footer(
      "Both models are in memory. KL is that of the model from the one it is compared with.\n"
      "Examples:\n"
      "  ashlar eval logits MODEL --weights int4 --text wiki.test.raw\n"
      "  ashlar eval logits MODEL.Q4_K_M.gguf --against MODEL --text wiki.test.raw --limit 20");
  command->callback([options] { evaluate(*options); });
}

}  // namespace ashlar
