#include <memory>

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/eval_prompts.h"
#include "base/error.h"
#include "io/mapped_file.h"
#include "measure/evaluation/perplexity.h"
#include "measure/report/report_file.h"
#include "session/output.h"
#include "session/progress.h"

namespace ashlar {
namespace {

constexpr size_t kLargestText = size_t{256} << 20;

struct PerplexityCommand {
  SessionOptions session;
  PerplexityOptions study;
  std::string text, json;
};

// The token that the tokenizer puts before a text, if it does so.
std::optional<int32_t> first_of_texts(const Tokenizer& tokenizer) {
  const std::vector<int32_t> with = tokenizer.encode("a", {.add_special_tokens = true});
  const std::vector<int32_t> without = tokenizer.encode("a", {.add_special_tokens = false});
  if (with.empty() || without.empty() || with.front() == without.front()) return std::nullopt;
  return with.front();
}

void evaluate(PerplexityCommand& options) {
  ReportFile json_file(options.json);
  const std::string text = read_text_file(options.text, kLargestText);
  options.session.drafter = "none";
  const std::unique_ptr<Session> session = open_session(options.session);
  if (!session->engine().scores_prompts()) {
    throw Error("eval", "perplexity is that of models that predict the next token; this one fills blocks");
  }
  const int32_t longest = session->engine().max_positions();
  if (options.study.window > longest) {
    throw Error("eval", "--window is " + std::to_string(options.study.window) + "; the context holds " +
                            std::to_string(longest) + " tokens");
  }
  const std::vector<int32_t> ids = session->checked(session->tokenizer().encode(text, {.add_special_tokens = false}));
  const auto windows = text_windows(ids, first_of_texts(session->tokenizer()), options.study);
  if (windows.empty()) {
    throw Error("eval", options.text + ": is " + std::to_string(ids.size()) + " tokens long; expected " +
                            std::to_string(options.study.window) + " (--window) at least");
  }
  Perplexity result;
  {
    Progress progress("windows", static_cast<int64_t>(windows.size()));
    result = measure_perplexity(session->engine(), windows, options.study, [&](int64_t n) { progress.update(n); });
  }
  write_output(perplexity_text(result, options.study));
  if (!json_file.wanted()) return;
  Json json = describe_subject(*session, {});
  json.erase("prompt_file");
  json["text_file"] = options.text;
  json.update(perplexity_json(result, options.study));
  json_file.write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

void add_eval_perplexity_command(CLI::App& eval) {
  auto options = std::make_shared<PerplexityCommand>();
  options->session.engine.prefix_cache = false;  // windows share nothing
  CLI::App* command = eval.add_subcommand("perplexity", "How well the model predicts a text");
  command->add_option("--text", options->text, "The text, UTF-8")->type_name("FILE")->required();
  command->add_option("--window", options->study.window, "Tokens seen together; the second half is predicted")
      ->type_name("N")
      ->transform(whole(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--limit", options->study.limit, "Windows (0: all)")
      ->type_name("N")
      ->transform(whole(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--batch", options->study.batch, "Windows at a time")
      ->type_name("N")
      ->transform(whole(1, 256))
      ->capture_default_str();
  command->add_option("--json", options->json, "Write every figure to this file")->type_name("FILE");
  add_session_flags(*command, options->session);
  command->footer(
      "Models, formats and --weights compare by this on one text and window; one with another tokenizer does not.\n"
      "Examples:\n"
      "  ashlar eval perplexity MODEL --text wiki.test.raw\n"
      "  ashlar eval perplexity MODEL --text wiki.test.raw --window 2048 --limit 20 --json perplexity.json");
  command->callback([options] { evaluate(*options); });
}

}  // namespace ashlar
