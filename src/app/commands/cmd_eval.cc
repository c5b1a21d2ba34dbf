// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/eval_prompts.h"
#include "base/error.h"
#include "measure/evaluation/acceptance_report.h"
#include "measure/evaluation/denoise_study.h"
#include "measure/prompt_file.h"
#include "measure/report/report_file.h"
#include "session/output.h"
#include "session/progress.h"

namespace ashlar {
namespace {

constexpr int kStudyRounds = 3;

struct EvalOptions : EvalBasics {
  AcceptanceOptions acceptance;
  bool denoise_study = false;
};

// The drafter's width and its halves down to 4, if no widths were asked for.
void complete_widths(std::vector<int32_t>& widths, int32_t widest) {
  if (widths.empty()) {
    for (int32_t width = widest; widths.empty() || width >= 4; width /= 2) widths.push_back(width);
  }
  for (const int32_t width : widths) {
    if (width > widest) {
      throw Error("eval", "--widths asks for " + std::to_string(width) + "; this drafter offers 2 to " +
                              std::to_string(widest));
    }
  }
}

// The options' method at its whole block: left to itself the decoder would verify fewer rows where that is faster.
DecoderSpec whole_block(const Session& session, int32_t widest) {
  DecoderSpec spec = session.spec();
  spec.dflash.width = widest;
  spec.ngram = NgramUse::kNever;  // this is about the drafter
  return spec;
}

std::vector<DenoiseCell> run_denoise_study(Session& session, const AcceptanceStudy& reference,
                                           AcceptanceStudy& outcome) {
  std::vector<DenoiseCell> cells;
  for (const int32_t passes : {1, 2, 4}) {
    for (const auto schedule : {DenoiseSchedule::kCosine, DenoiseSchedule::kLinear, DenoiseSchedule::kSquareRoot}) {
      cells.push_back({passes, passes == 1 ? "-" : name_of(schedule), {}, {}});
      if (passes == 1) break;
    }
  }
  const int64_t each = reference.total_requests() / 2;
  Progress progress("passes", each * kStudyRounds * static_cast<int64_t>(cells.size()));
  int64_t done = 0;
  for (int round = 0; round < kStudyRounds; ++round) {
    for (DenoiseCell& cell : cells) {
      DecoderSpec spec = whole_block(session, reference.options().widths.front());
      spec.dflash.passes = cell.passes;
      spec.dflash.branches = 0;  // more passes make chains
      if (cell.passes > 1) spec.dflash.schedule = *parse_denoise_schedule(cell.schedule);
      AcceptanceStudy study = reference;
      study.run_drafted(session.start(spec), [&](int64_t finished) { progress.update(done + finished - each); });
      done += each;
      cell.speeds.push_back(study.cells().front().all.decode_tokens_per_second());
      if (round == 0) cell.tally = study.cells().front().all;
      if (!study.mismatches().empty()) outcome = study;
    }
  }
  return cells;
}

// Acceptance length and speed by drafter passes, at the first temperature and width. Returns whether all answers were
// plain decoding's.
bool study_passes(Session& session, const EvalOptions& options, const std::vector<PromptIds>& prompts, Json& json) {
  AcceptanceOptions narrowed = options.acceptance;
  narrowed.temperatures.resize(1);
  narrowed.widths.resize(1);
  AcceptanceStudy reference(narrowed, prompts);
  reference.run_plain(session.start(DecoderSpec{}), {});
  AcceptanceStudy outcome = reference;
  const std::vector<DenoiseCell> cells = run_denoise_study(session, reference, outcome);
  write_output(denoise_text(cells, narrowed.widths.front(), narrowed.temperatures.front()));
  if (!outcome.mismatches().empty()) write_output("  answers differ from plain decoding's\n");
  json["denoising"] = denoise_json(cells);
  return outcome.mismatches().empty();
}

void evaluate(EvalOptions& options) {
  ReportFile json_file(options.json), svg_file(options.svg);
  const auto texts = options.prompts.empty() ? builtin_prompts() : read_prompt_file(options.prompts, options.limit);
  const std::unique_ptr<Session> session = open_session(options.session);
  if (session->config().diffusion) {
    throw Error("eval", "acceptance is that of drafts, and this model fills blocks without any; use ashlar eval dllm");
  }
  if (!session->has_drafter()) throw Error("eval", "acceptance needs a drafter; name one with --drafter FOLDER");
  const int32_t widest = session->engine().max_width();
  complete_widths(options.acceptance.widths, widest);
  options.acceptance.stop_ids = session->stop_ids();
  const std::vector<PromptIds> prompts = encode_prompts(*session, texts, options.limit, options.raw);
  AcceptanceStudy study(options.acceptance, prompts);
  {
    Progress progress("eval", study.total_requests());
    const auto update = [&](int64_t done) { progress.update(done); };
    study.run_plain(session->start(DecoderSpec{}), update);
    study.run_drafted(session->start(whole_block(*session, widest)), update);
  }
  write_output(acceptance_text(study));
  bool identical = study.mismatches().empty();
  Json json = describe_subject(*session, options);
  json.update(acceptance_json(study));
  json["options"]["passes"] = options.session.dflash.passes;
  json["options"]["branches"] = options.session.dflash.branches;
  json["options"]["draft_window"] = options.session.dflash.window;
  if (options.denoise_study) identical = study_passes(*session, options, prompts, json) && identical;
  if (json_file.wanted()) json_file.write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (svg_file.wanted()) {
    svg_file.write(
        acceptance_svg(study, folder_name(session->choice().model) + " drafted by " + session->drafter_name()));
  }
  if (!identical) throw CLI::RuntimeError(1);
}

void add_acceptance_command(CLI::App& eval) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = eval.add_subcommand(
      "acceptance", "How many tokens a step yields with the drafter, and whether answers stay the same");
  add_prompt_flags(*command, *options, options->acceptance.max_tokens);
  command
      ->add_option("--temperatures", options->acceptance.temperatures,
                   "Temperatures, the first is the main one (default: 0,0.7,1)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(number(0.0, 100.0))
      ->type_name("T,...");
  command
      ->add_option("--widths", options->acceptance.widths,
                   "Rows of a verify step, the first is the main one (default: block, half, ...)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(whole(2, kMaxWidth))
      ->type_name("W,...");
  command->add_option("--top-p", options->acceptance.sampling.top_p, "Keep the most likely tokens up to this mass")
      ->transform(number_above(0, 1))
      ->type_name("X")
      ->capture_default_str();
  command->add_option("--top-k", options->acceptance.sampling.top_k, "Keep the K most likely tokens (0: all)")
      ->transform(whole(0, 1 << 24))
      ->type_name("K")
      ->capture_default_str();
  command->add_flag("!--no-identity", options->acceptance.identity, "Do not compare with plain decoding's answers");
  command->add_flag("--denoise-study", options->denoise_study, "Also compare 1, 2 and 4 drafter passes by schedule");
  add_study_flags(*command, *options, options->acceptance.sampling.seed, options->acceptance.batch,
                  "acceptance by position, histogram");
  command->get_option("--widths")->excludes(command->get_option("--width"));
  command->footer(
      "Exit code 1 if an answer differs from plain decoding's.\n"
      "Examples:\n"
      "  ashlar eval acceptance\n"
      "  ashlar eval acceptance MODEL --drafter FOLDER --prompts mt-bench.jsonl --limit 20 --svg acceptance.svg --json "
      "acceptance.json");
  command->callback([options] { evaluate(*options); });
}

}  // namespace

CLI::App* add_eval_command(CLI::App& app) {
  CLI::App* eval = app.add_subcommand("eval", "Measure the quality of a model, of drafting and of denoising");
  eval->require_subcommand(1);
  add_acceptance_command(*eval);
  add_eval_dllm_command(*eval);
  add_eval_perplexity_command(*eval);
  add_eval_logits_command(*eval);
  return eval;
}

}  // namespace ashlar
