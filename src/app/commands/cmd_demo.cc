// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/block_demo.h"
#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/demo_prompts.h"
#include "app/figures.h"
#include "app/ordered_output.h"
#include "app/prompts.h"
#include "base/error.h"
#include "measure/report/report_file.h"
#include "session/answers.h"
#include "session/interrupt.h"
#include "session/models/model_locator.h"
#include "session/output.h"
#include "session/progress.h"

namespace ashlar {
namespace {

constexpr size_t kBlockPrompts = 3;

struct DemoOptions {
  SessionOptions session;
  SamplingParams sampling;
  std::string prompts_file;
  std::vector<std::string> prompts;
  int32_t max_tokens = 256;
  int32_t rounds = 3;
  std::string json;
  ColorMode color = ColorMode::kAuto;
};

// One way to decode: what it answered and how fast, prompt by prompt.
struct Run {
  std::vector<Answer> answers;  // of the first round
  std::vector<double> seconds;  // best of all rounds, from the first token to the end
  bool repeats = true;          // every round gave the same tokens
};

void print_heading(const std::string& text, bool color) {
  std::printf("\n%s== %s ==%s\n", color ? "\033[1m" : "", text.c_str(), color ? "\033[0m" : "");
}

class DemoPrinter final : public AnswerListener {
 public:
  DemoPrinter(bool shown, bool color) : shown_(shown), color_(color) {}
  void on_text(size_t, std::string_view text, bool drafted) override {
    if (!shown_) return;
    const std::string styled = tinted(text, drafted, color_);
    write_output(styled);
    flush_output();
  }

 private:
  bool shown_;
  bool color_;
};

class Demo {
 public:
  Demo(const DemoOptions& options, Session& session, std::vector<Prompt> prompts)
      : options_(options),
        session_(session),
        prompts_(std::move(prompts)),
        color_(use_color(options.color, STDOUT_FILENO)) {}

  /// Its figures; `identical`: whether both ways gave the same tokens everywhere.
  Json run() {
    show_both();
    measure_more();
    if (InterruptScope::requested()) throw CLI::RuntimeError(kInterruptedExit);
    return report();
  }

 private:
  DecoderSpec plain_spec() const { return {}; }

  AnswerJob job_of(size_t prompt) const {
    AnswerJob job;
    job.request = demo_request(session_, prompts_[prompt], options_.sampling, options_.max_tokens);
    return job;
  }

  Answer answer(size_t prompt, bool shown) {
    DemoPrinter printer(shown, color_);
    Answer answer = run_answers(session_.engine(), session_.tokenizer(), {job_of(prompt)}, printer)[0];
    if (answer.finish == "error") throw Error("demo", answer.error);
    return answer;
  }

  void record(Run& run, size_t prompt, Answer answer) {
    const double seconds = static_cast<double>(answer.stats.finished_ns - answer.stats.first_token_ns) * 1e-9;
    if (run.answers.size() == prompt) {
      run.answers.push_back(std::move(answer));
      run.seconds.push_back(seconds);
      return;
    }
    run.seconds[prompt] = std::min(run.seconds[prompt], seconds);
    run.repeats = run.repeats && run.answers[prompt].tokens == answer.tokens;
  }

  // The first round: every prompt plainly, then every prompt with drafts, as it comes.
  void show_both() {
    session_.start(plain_spec());
    heading("plain decoding, one token a step");
    show_round(plain_);
    session_.start();
    heading("with " + (session_.has_drafter() ? session_.drafter_name() : "n-gram drafts") +
            (color_ ? ", drafted tokens in colour" : ""));
    show_round(drafted_);
  }

  void show_round(Run& run) {
    answer(0, false);  // caches and clocks warm up
    for (size_t i = 0; i < prompts_.size() && !InterruptScope::requested(); ++i) {
      std::printf("\n%s%s%s\n", color_ ? "\033[1m" : "> ", prompts_[i].text.c_str(), color_ ? "\033[0m" : "");
      record(run, i, answer(i, true));
      const AnswerTotals totals = totals_of(run, i);
      std::printf("%s%s[%zu tokens, %.0f tokens/s", run.answers[i].text.ends_with('\n') ? "" : "\n",
                  color_ ? "\033[2m" : "", run.answers[i].tokens.size(), totals.decode_rate());
      if (totals.drafted > 0) std::printf(", %.2f tokens per step", totals.mean_length());
      std::printf("]%s\n", color_ ? "\033[0m" : "");
    }
    flush_output();
  }

  // More rounds, silently and in turns, so that a moment of other load on the machine does not decide.
  void measure_more() {
    const auto total = static_cast<int64_t>(2 * (options_.rounds - 1) * prompts_.size());
    Progress progress("measuring", total);
    int64_t done = 0;
    for (int32_t round = 1; round < options_.rounds; ++round) {
      for (Run* run : {&plain_, &drafted_}) {
        session_.start(run == &plain_ ? plain_spec() : session_.spec());
        answer(0, false);
        for (size_t i = 0; i < prompts_.size() && !InterruptScope::requested(); ++i) {
          record(*run, i, answer(i, false));
          progress.update(++done);
        }
      }
    }
  }

  static AnswerTotals totals_of(const Run& run, size_t prompt) {
    AnswerTotals totals;
    totals.add(run.answers[prompt]);
    return totals;
  }

  // Tokens per second over all prompts, the first token of each left out: it belongs to the prompt's time.
  static double rate(const Run& run) {
    double tokens = 0, seconds = 0;
    for (size_t i = 0; i < run.answers.size(); ++i) {
      tokens += static_cast<double>(run.answers[i].tokens.size()) - 1;
      seconds += run.seconds[i];
    }
    return seconds > 0 ? tokens / seconds : 0;
  }

  // Of a prompt, as both ways answered it.
  Json prompt_json(size_t prompt) const {
    const auto rate_of = [&](const Run& run) {
      const double tokens = static_cast<double>(run.answers[prompt].tokens.size()) - 1;
      return run.seconds[prompt] > 0 ? Json(tokens / run.seconds[prompt]) : Json();
    };
    return {{"prompt", prompts_[prompt].text},
            {"text", drafted_.answers[prompt].text},
            {"tokens", drafted_.answers[prompt].tokens.size()},
            {"identical", plain_.answers[prompt].tokens == drafted_.answers[prompt].tokens},
            {"plain_tokens_per_second", rate_of(plain_)},
            {"drafted_tokens_per_second", rate_of(drafted_)},
            {"mean_acceptance_length", totals_of(drafted_, prompt).mean_length()}};
  }

  Json report() {
    Json prompts = Json::array();
    AnswerTotals totals;
    double best = 0;
    size_t best_prompt = 0;
    bool identical = plain_.repeats && drafted_.repeats;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      totals.add(drafted_.answers[i]);
      prompts.push_back(prompt_json(i));
      identical = identical && plain_.answers[i].tokens == drafted_.answers[i].tokens;
      const double gain = drafted_.seconds[i] > 0 ? plain_.seconds[i] / drafted_.seconds[i] : 0;
      if (gain > best) {
        best = gain;
        best_prompt = i;
      }
    }
    heading("result (best of " + std::to_string(options_.rounds) + " rounds)");
    std::printf("plain:    %6.0f tokens/s\n", rate(plain_));
    std::printf("drafting: %6.0f tokens/s\n", rate(drafted_));
    const double speed_up = rate(plain_) > 0 ? rate(drafted_) / rate(plain_) : 0.0;
    std::printf("speed-up: %.1fx\n", speed_up);
    std::printf("best prompt: %.1fx (%.60s)\n", best, prompts_[best_prompt].text.c_str());
    std::printf("mean acceptance length: %.2f tokens per step; share of the steps that gave\n", totals.mean_length());
    const int width = std::min(72, terminal_width(STDOUT_FILENO));
    for (const std::string& line : histogram_lines(totals.lengths, width)) std::printf("%s\n", line.c_str());
    if (totals.ngram_accepted > 0 && session_.has_drafter()) {
      std::printf("of %lld accepted drafts %lld followed the same tokens before, without the drafter\n",
                  static_cast<long long>(totals.accepted), static_cast<long long>(totals.ngram_accepted));
    }
    std::printf("identical: %s\n", identical ? "yes" : "NO");
    return {{"rounds", options_.rounds},
            {"identical", identical},
            {"plain_tokens_per_second", rate(plain_)},
            {"drafted_tokens_per_second", rate(drafted_)},
            {"speed_up", speed_up},
            {"mean_acceptance_length", totals.mean_length()},
            {"drafted", totals.drafted},
            {"accepted", totals.accepted},
            {"ngram_accepted", totals.ngram_accepted},
            {"lengths", totals.lengths},
            {"prompts", std::move(prompts)}};
  }

  void heading(const std::string& text) const { print_heading(text, color_); }

  const DemoOptions& options_;
  Session& session_;
  std::vector<Prompt> prompts_;
  bool color_;
  Run plain_, drafted_;
};

// A model that fills blocks, against itself: its figures, or null if it was interrupted.
Json show_blocks(const DemoOptions& options, Session& session, const std::vector<Prompt>& prompts) {
  BlockDemoOptions blocks;
  blocks.sampling = options.sampling;
  blocks.max_tokens = options.max_tokens;
  blocks.rounds = options.rounds;
  blocks.color = use_color(options.color, STDOUT_FILENO);
  if (is_terminal(STDOUT_FILENO)) blocks.pause = std::chrono::milliseconds(60);
  print_heading("block diffusion with " + folder_name(session.choice().model) +
                    (blocks.pause.count() > 0 ? ", in slow motion" : ""),
                blocks.color);
  Json figures = demo_blocks(session, prompts, blocks);
  if (!figures.is_null()) figures.update(provenance(session));
  return figures;
}

// The bundled one, where it is there: it is only shown with the other bundled model.
Json show_bundled_blocks(const DemoOptions& options, std::vector<Prompt> prompts) {
  if (!options.session.model.empty() || !options.session.drafter.empty()) return nullptr;
  DemoOptions own = options;
  own.session.drafter = "none";
  own.session.quiet = true;
  try {
    own.session.model = locate_models(kBundledBlockModel, "none", model_roots()).model.string();
  } catch (const Error&) {
    return nullptr;  // not installed
  }
  prompts.resize(std::min(prompts.size(), kBlockPrompts));
  return show_blocks(own, *open_session(own.session), prompts);
}

void write_json(ReportFile& file, const Json& figures) {
  if (file.wanted()) file.write(figures.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void demo(DemoOptions& options) {
  ReportFile file(options.json);  // says before the work what cannot be written
  options.session.engine.max_sequences = 4;
  options.session.engine.prefix_cache = false;  // every round does the same work
  std::vector<Prompt> prompts;
  if (!options.prompts_file.empty()) prompts = read_prompts(options.prompts_file, "");
  for (const std::string& text : options.prompts) prompts.push_back(make_prompt(text, ""));
  if (prompts.empty()) {
    for (const char* text : kDemoPrompts) prompts.push_back(make_prompt(text, ""));
  }
  std::unique_ptr<Session> session = open_session(options.session);
  const InterruptScope scope;
  Json figures = Json::object();
  if (session->config().diffusion) {
    figures["blocks"] = show_blocks(options, *session, prompts);
    return write_json(file, figures);
  }
  if (!session->drafts())
    throw Error("demo", "there are no drafts to compare plain decoding with; name a drafter with --drafter, or ngram");
  Json drafting = Demo(options, *session, prompts).run();
  drafting.update(provenance(*session));
  session.reset();  // its memory
  const bool identical = drafting["identical"].get<bool>();
  figures["drafting"] = std::move(drafting);
  if (identical) figures["blocks"] = show_bundled_blocks(options, std::move(prompts));
  write_json(file, figures);
  if (!identical) {
    print_error("plain decoding and drafting gave different tokens; this must never happen, please report it");
    throw CLI::RuntimeError(1);
  }
}

}  // namespace

CLI::App* add_demo_command(CLI::App& app) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* command = app.add_subcommand("demo", "Plain decoding against drafting: speed, acceptance, identity");
  command->add_option("-p,--prompt", options->prompts, "Ask this instead of the built-in prompts (repeatable)")
      ->type_name("STR")
      ->allow_extra_args(false);
  command->add_option("--prompts", options->prompts_file, "Ask these: JSONL, or one prompt a line")->type_name("FILE");
  command->add_option("-n,--max-tokens", options->max_tokens, "Longest answer")
      ->type_name("N")
      ->transform(whole(2, 1 << 24))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "How often each prompt is measured; the best counts")
      ->type_name("N")
      ->transform(whole(1, 100))
      ->capture_default_str();
  command->add_option("--json", options->json, "Write every figure to this file")->type_name("FILE");
  add_color_flag(*command, options->color);
  add_session_flags(*command, options->session);
  add_sampling_flags(*command, options->sampling);
  command->callback([options] { demo(*options); });
  return command;
}

}  // namespace ashlar
