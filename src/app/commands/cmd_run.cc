// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/figures.h"
#include "app/ordered_output.h"
#include "app/prompts.h"
#include "base/clock.h"
#include "base/error.h"
#include "io/json.h"
#include "session/answers.h"
#include "session/interrupt.h"
#include "session/models/model_locator.h"
#include "session/progress.h"

namespace ashlar {
namespace {

struct RunOptions {
  SessionOptions session;
  SamplingParams sampling;
  std::string prompt, prompt_file, prompts_file, system;
  bool has_prompt = false;
  bool seed_is_fresh = false;
  int32_t max_tokens = 0;
  int32_t n = 1;
  int32_t logprobs = -1;
  std::vector<std::string> stop;
  bool raw = false;
  bool json = false;
  ColorMode color = ColorMode::kAuto;
};

std::vector<Prompt> collect_prompts(const RunOptions& options) {
  if (!options.prompts_file.empty()) return read_prompts(options.prompts_file, options.system);
  std::string text = options.prompt;
  const std::string& model = options.session.model;
  const std::vector<std::filesystem::path> roots = model_roots();
  const bool is_name = model.find('/') != std::string::npos || std::ranges::any_of(roots, [&](const auto& root) {
                         return std::filesystem::exists(root / model);
                       });
  const bool mistaken = !options.has_prompt && !model.empty() && !is_name && !std::filesystem::exists(model);
  const std::string hint =
      mistaken ? "; " + for_message(model) + " was taken as the model's name: a prompt goes after --prompt" : "";
  if (!options.has_prompt) {
    const bool piped = options.prompt_file.empty();
    if (piped && is_terminal(STDIN_FILENO)) {
      throw CLI::ValidationError(
          "no prompt: give one with --prompt TEXT or --prompt-file FILE, pipe one in, or talk in ashlar chat" + hint);
    }
    text = read_prompt_text(piped ? "-" : options.prompt_file);
  }
  if (text.empty()) throw CLI::ValidationError("the prompt is empty" + hint);
  return {make_prompt(text, options.system)};
}

// What the chat template refuses is an error of this prompt; others may go on.
void encode(const Session& session, const Prompt& prompt, bool raw, AnswerJob& job) {
  if (!prompt.ids.empty()) {
    job.request.prompt = prompt.ids;
    return;
  }
  try {
    job.request.prompt = raw ? session.encode_raw(prompt.text) : session.encode_chat(prompt.messages);
  } catch (const Error& error) {
    job.refusal = error.what();
  }
}

std::vector<AnswerJob> make_jobs(const Session& session, const RunOptions& options,
                                 const std::vector<Prompt>& prompts) {
  std::vector<AnswerJob> jobs;
  for (const Prompt& prompt : prompts) {
    AnswerJob job;
    encode(session, prompt, options.raw, job);
    job.request.sampling = options.sampling;
    job.request.sampling.top_logprobs = options.logprobs;
    job.request.max_tokens = options.max_tokens;
    job.request.stop_ids = session.stop_ids();
    job.stop = options.stop;
    for (int32_t i = 0; i < options.n; ++i) {
      jobs.push_back(job);
      jobs.back().request.sampling.seed = choice_seed(options.sampling.seed, i);
    }
  }
  return jobs;
}

int exit_code(const std::vector<Answer>& answers, int32_t answers_per_prompt) {
  int code = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].finish != "error") continue;
    const size_t prompt = i / static_cast<size_t>(answers_per_prompt) + 1;
    print_error((answers.size() > 1 ? "prompt " + std::to_string(prompt) + ": " : "") + answers[i].error);
    code = 1;
  }
  return code;
}

void run(RunOptions& options) {
  color_messages(options.color);
  const std::vector<Prompt> prompts = collect_prompts(options);
  const std::unique_ptr<Session> session = open_session(options.session);
  note_ignored_options(*session, options.sampling);
  if (!session->has_chat_template()) options.raw = true;
  std::vector<AnswerJob> jobs = make_jobs(*session, options, prompts);

  OutputStyle style;
  style.json = options.json;
  style.color = !options.json && use_color(options.color, STDOUT_FILENO);
  style.answers_per_prompt = options.n;
  if (options.sampling.temperature > 0.0) style.seed = options.sampling.seed;
  // Where the answers themselves do not show how far things are.
  Progress progress("answering", static_cast<int64_t>(jobs.size()));
  if (jobs.size() > 1 && !is_terminal(STDOUT_FILENO))
    style.on_count = [&progress](int64_t done) { progress.update(done); };
  OrderedOutput output(session->tokenizer(), prompts, style);
  std::vector<Answer> answers;
  bool interrupted = false;
  const int64_t begin = now_ns();
  {
    const InterruptScope scope;
    answers = run_answers(session->engine(), session->tokenizer(), std::move(jobs), output);
    interrupted = InterruptScope::requested();
  }
  const bool any = std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return !answer.refused; });
  if (any && !options.session.quiet && options.seed_is_fresh) {
    print_note("seed " + std::to_string(options.sampling.seed) + " (the same answer again: --seed " +
               std::to_string(options.sampling.seed) + ")");
  }
  if (any && !options.session.quiet) {
    const StepKind kind = session->is_block_diffusion() ? StepKind::kForward : StepKind::kVerify;
    print_note(stats_line(answers, static_cast<double>(now_ns() - begin) * 1e-9, kind));
  }
  const int code = exit_code(answers, options.n);
  if (interrupted || code != 0) throw CLI::RuntimeError(interrupted ? kInterruptedExit : code);
}

}  // namespace

CLI::App* add_run_command(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Answer a prompt, or a file of prompts");
  CLI::Option* prompt = command->add_option("-p,--prompt", options->prompt, "What to ask")->type_name("STR");
  CLI::Option* file = command
                          ->add_option("-f,--prompt-file", options->prompt_file,
                                       "The same from a file; - is standard input (the default)")
                          ->type_name("FILE")
                          ->excludes(prompt);
  command
      ->add_option("--prompts", options->prompts_file,
                   "Many prompts, answered together: JSON Lines or one a line; - is standard input")
      ->type_name("FILE")
      ->excludes(prompt)
      ->excludes(file);
  CLI::Option* system = command->add_option("--system", options->system, "System message")->type_name("STR");
  command->add_flag("--raw", options->raw, "Continue the text as it is, without the chat template")->excludes(system);
  command
      ->add_option("-n,--max-tokens", options->max_tokens,
                   "Longest answer (default: to its end, or the end of the context)")
      ->type_name("N")
      ->transform(whole(1, 1 << 24));
  command->add_option("--n", options->n, "Answers to each prompt; useful with a temperature")
      ->type_name("N")
      ->transform(whole(1, 1024))
      ->capture_default_str();
  command->add_option("--stop", options->stop, "End the answer before this text (repeatable)")
      ->type_name("STR")
      ->check(CLI::Validator(
          [](std::string& text) { return text.empty() ? "is empty; expected a text to end before" : std::string(); },
          ""))
      ->allow_extra_args(false);
  command
      ->add_option("--logprobs", options->logprobs,
                   "Log-probabilities of the answer's tokens and of the K best of each")
      ->type_name("K")
      ->transform(whole(0, kMaxTopLogprobs));
  command->add_flag("--json", options->json, "One JSON object a line for each answer, with tokens and figures");
  command->add_flag("-q,--quiet", options->session.quiet, "Print the answer only");
  add_color_flag(*command, options->color);
  add_session_flags(*command, options->session);
  CLI::Option* seed = add_sampling_flags_with_fresh_seed(*command, options->sampling);
  command->footer(
      "Examples:\n"
      "  ashlar run --prompt \"Solve for x: 8x + 5 = 3x + 45\"\n"
      "  ashlar run ~/models/Qwen3-0.6B --drafter ~/models/Qwen3-0.6B-DFlash -p \"Why is the sky blue?\" -n 200\n"
      "  ashlar run --prompts questions.jsonl --json > answers.jsonl\n"
      "  echo \"def fibonacci(n):\" | ashlar run --raw -n 60 --temperature 0.7 --seed 1");
  command->callback([options, prompt, seed] {
    options->seed_is_fresh = seed->count() == 0 && choose_seed(options->sampling);
    options->has_prompt = prompt->count() > 0;
    run(*options);
  });
  return command;
}

}  // namespace ashlar
