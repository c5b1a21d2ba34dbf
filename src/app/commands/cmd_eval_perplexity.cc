// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/eval_text.h"
#include "base/error.h"
#include "measure/evaluation/perplexity.h"
#include "measure/report/report_file.h"
#include "session/output.h"
#include "session/progress.h"

namespace ashlar {
namespace {

struct PerplexityCommand {
  SessionOptions session;
  TextStudy text;
};

void evaluate(PerplexityCommand& options) {
  ReportFile json_file(options.text.json);
  options.session.drafter = "none";
  const std::unique_ptr<Session> session = open_session(options.session);
  if (!session->engine().scores_prompts()) {
    throw Error("eval", "perplexity is that of models that predict the next token; this one fills blocks");
  }
  const auto windows = read_windows(*session, options.text);
  const PerplexityOptions& study = options.text.study;
  Perplexity result;
  {
    Progress progress("windows", static_cast<int64_t>(windows.size()));
    result = measure_perplexity(session->engine(), windows, study, [&](int64_t n) { progress.update(n); });
  }
  write_output(perplexity_text(result, study));
  if (!json_file.wanted()) return;
  Json json = describe_text_study(*session, options.text);
  json.update(perplexity_json(result, study));
  json_file.write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

void add_eval_perplexity_command(CLI::App& eval) {
  auto options = std::make_shared<PerplexityCommand>();
  options->session.engine.prefix_cache = false;  // windows share nothing
  CLI::App* command = eval.add_subcommand("perplexity", "How well the model predicts a text");
  add_text_flags(*command, options->text);
  command->add_option("--batch", options->text.study.batch, "Windows at a time")
      ->type_name("N")
      ->transform(whole(1, 256))
      ->capture_default_str();
  add_session_flags(*command, options->session);
  command->footer(
      "Models, formats and --weights compare by this on one text and window; one with another tokenizer does not.\n"
      "Examples:\n"
      "  ashlar eval perplexity MODEL --text wiki.test.raw\n"
      "  ashlar eval perplexity MODEL --text wiki.test.raw --window 2048 --limit 20 --json perplexity.json");
  command->callback([options] { evaluate(*options); });
}

}  // namespace ashlar
