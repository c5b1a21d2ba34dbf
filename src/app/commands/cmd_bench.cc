// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/figures.h"
#include "base/error.h"
#include "base/machine/available_memory.h"
#include "measure/build_info.h"
#include "measure/drafting/draft_latency.h"
#include "measure/engine/bench_report.h"
#include "measure/engine/kernel_bench.h"
#include "measure/engine/width_grid.h"
#include "measure/prompt_file.h"
#include "measure/report/report_file.h"
#include "session/output.h"
#include "session/progress.h"

namespace ashlar {
namespace {

struct BenchCommand {
  SessionOptions session;
  BenchOptions bench;
  std::vector<int32_t> contexts;  // empty: no grid of widths
  std::vector<int32_t> concurrency;
  std::vector<std::string> drafters;  // whose drafting is measured alone; empty: none
  bool kernels = false;
  std::string json;
};

// One line for each stage of a bench.
class StageProgress {
 public:
  void update(const std::string& stage, int64_t done, int64_t total) {
    if (stage != stage_) {
      progress_.reset();
      progress_ = std::make_unique<Progress>(stage, total);
      stage_ = stage;
    }
    progress_->update(done);
  }

 private:
  std::string stage_;
  std::unique_ptr<Progress> progress_;
};

std::vector<std::vector<int32_t>> encode_prompts(const Session& session) {
  std::vector<std::vector<int32_t>> encoded;
  for (const EvalPrompt& prompt : builtin_prompts()) {
    encoded.push_back(session.has_chat_template()
                          ? session.encode_chat(prompt.messages)
                          : session.encode_raw(prompt.messages[0]["content"].get<std::string>()));
  }
  return encoded;
}

void write_json(ReportFile& file, const Session& session, const Json& figures) {
  if (!file.wanted()) return;
  Json json = provenance(session);
  json.update(figures);
  file.write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_subject(const Session& session) {
  const std::string commit = build_commit();
  std::printf("ashlar %s%s%s, %s\n\n", build_version().c_str(), commit.empty() ? "" : ", commit ", commit.c_str(),
              session.describe().c_str());
}

void bench_widths(const BenchCommand& command, const Session& session, const BenchSubject& subject, ReportFile& file) {
  WidthGridOptions options;
  options.contexts = command.contexts;
  if (!command.concurrency.empty()) options.concurrency = command.concurrency;
  WidthGrid grid;
  {
    StageProgress progress;
    grid = run_width_grid(subject, options, [&](const std::string& stage, int64_t done, int64_t total) {
      progress.update(stage, done, total);
    });
  }
  print_subject(session);
  write_output(width_grid_text(grid));
  write_json(file, session, width_grid_json(grid));
  if (grid.identical != grid.compared) throw CLI::RuntimeError(1);
}

void bench_kernels(const BenchCommand& command, const Session& session, const BenchSubject& subject, TimedOps& timed,
                   ReportFile& file) {
  KernelOptions options;
  options.repeat = command.bench.repeat;
  options.context = command.bench.context;
  options.seconds = command.bench.seconds;
  options.available_memory = timed.available_memory().bytes;
  KernelBench kernels;
  {
    StageProgress progress;
    kernels = run_kernel_bench(subject, timed, options, [&](const std::string& stage, int64_t done, int64_t total) {
      progress.update(stage, done, total);
    });
  }
  print_subject(session);
  write_output(kernel_bench_text(kernels));
  write_json(file, session, kernel_bench_json(kernels));
}

std::vector<NamedDrafter> find_drafters(const BenchCommand& command) {
  std::vector<NamedDrafter> found;
  for (const std::string& name : command.drafters) {
    if (name.empty()) throw Error("drafter", "--drafters: a name is missing between commas");
    const ModelChoice choice = locate_models(command.session.model, name, model_roots());
    if (!choice.drafter) throw Error("drafter", name + ": drafts nothing by itself; expected drafters or mtp");
    NamedDrafter drafter = {choice.drafts_itself ? kMtp : folder_name(*choice.drafter), *choice.drafter};
    if (std::ranges::count(found, drafter.folder, &NamedDrafter::folder) > 0) {
      throw Error("drafter", name + ": is named twice");
    }
    if (std::ranges::count(found, drafter.name, &NamedDrafter::name) > 0) drafter.name = drafter.folder.string();
    found.push_back(std::move(drafter));
  }
  return found;
}

void bench_drafters(const BenchCommand& command, const std::vector<NamedDrafter>& drafters, const Session& session,
                    const BenchSubject& subject, ReportFile& file) {
  DraftLatencyOptions options;
  options.repeat = command.bench.repeat;
  options.context = command.bench.context;
  options.seconds = command.bench.seconds;
  DraftLatencies latencies;
  {
    StageProgress progress;
    latencies = run_draft_latency(
        subject, drafters, options,
        [&](const std::string& stage, int64_t done, int64_t total) { progress.update(stage, done, total); });
  }
  print_subject(session);
  write_output(draft_latency_text(latencies));
  write_json(file, session, draft_latency_json(latencies));
}

void bench(BenchCommand& command) {
  ReportFile file(command.json);
  TimedOps* timed = nullptr;
  if (command.kernels) {
    command.session.over_device = [&timed](Ops& device) {
      auto over = std::make_unique<TimedOps>(device);
      timed = over.get();
      return over;
    };
  }
  const std::vector<NamedDrafter> drafters = find_drafters(command);
  if (!drafters.empty()) command.session.drafter = "none";  // each has its turn
  const std::unique_ptr<Session> session = open_session(command.session);
  BenchSubject subject;
  subject.ops = &session->ops();
  subject.model = &session->model();
  subject.drafted = session->spec();
  subject.engine = session->options().engine;
  subject.prompts = encode_prompts(*session);
  if (!command.concurrency.empty()) {
    command.bench.concurrency = command.concurrency;
    std::ranges::sort(command.bench.concurrency);
  }
  if (!drafters.empty()) return bench_drafters(command, drafters, *session, subject, file);
  if (command.kernels) return bench_kernels(command, *session, subject, *timed, file);
  if (!command.contexts.empty()) return bench_widths(command, *session, subject, file);
  command.bench.available_memory = session->ops().available_memory().bytes;
  BenchResult result;
  {
    StageProgress progress;
    result = run_bench(subject, command.bench, [&](const std::string& stage, int64_t done, int64_t total) {
      progress.update(stage, done, total);
    });
  }
  print_subject(*session);
  write_output(bench_text(result));
  write_json(file, *session, bench_json(result));
  if (result.block == 0 && result.identical != result.compared) throw CLI::RuntimeError(1);
}

}  // namespace

CLI::App* add_bench_command(CLI::App& app) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure speed on this machine: steps, prefill, drafting, many sequences");
  command->add_option("--repeat", options->bench.repeat, "Rounds; more of them for a noisy machine")
      ->transform(whole(1, 100000))
      ->type_name("R")
      ->capture_default_str();
  command->add_option("--context", options->bench.context, "Tokens in the cache before the measured steps")
      ->transform(whole(1, 1 << 24))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("-n,--max-tokens", options->bench.max_tokens, "Longest answer")
      ->transform(whole(2, 1 << 24))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--seconds", options->bench.seconds,
                   "About as long as each part may take: slow models get fewer rounds, shorter answers (0: any time)")
      ->transform(number(0.0, 1e6))
      ->type_name("S")
      ->capture_default_str();
  command
      ->add_option(
          "--contexts", options->contexts,
          "Measure drafting alone, by tokens of context: plain, fixed widths, and those that the decoder chooses")
      ->delimiter(',')
      ->transform(whole(16, 1 << 24))
      ->type_name("N,...");
  command->add_option("--concurrency", options->concurrency, "Sequences at once (default: 1,4,8,16; by context 1,4,16)")
      ->delimiter(',')
      ->transform(whole(1, 1024))
      ->type_name("N,...");
  command
      ->add_option(
          "--accept-length", options->bench.accept_length,
          "Replace drafts by ones that give X tokens a step of the whole block: what a better drafter would gain")
      ->transform(number(1.0, 64.0))
      ->type_name("X")
      ->excludes("--contexts");
  command
      ->add_flag("--kernels", options->kernels,
                 "Measure ops alone: what each of a step, a verify, a draft pass and a prompt takes, reads and reaches")
      ->excludes("--contexts")
      ->excludes("--concurrency")
      ->excludes("--max-tokens")
      ->excludes("--accept-length");
  CLI::Option* const several =
      command
          ->add_option("--drafters", options->drafters,
                       "Measure drafting alone: what each of these (as --drafter takes them) needs for how many tokens")
          ->delimiter(',')
          ->type_name("D,...");
  for (const char* other : {"--contexts", "--concurrency", "--max-tokens", "--accept-length", "--kernels"}) {
    several->excludes(command->get_option(other));
  }
  command->add_option("--json", options->json, "Write every figure to this file")->type_name("FILE");
  add_session_flags(*command, options->session);
  for (const char* chosen : {"--drafter", "--width", "--branches", "--ngram-drafts"}) {  // chains of each length
    several->excludes(command->get_option(chosen));
  }
  command->footer(
      "All figures that are compared are measured in turns. Exit code 1 if a drafted answer differs from the plain "
      "one.\n"
      "Examples:\n"
      "  ashlar bench\n"
      "  ashlar bench MODEL --drafter FOLDER --threads 2 --repeat 200 --json bench.json\n"
      "  ashlar bench MODEL --drafter FOLDER --device cuda --accept-length 6\n"
      "  ashlar bench --contexts 200,1000,2500 --concurrency 1,4,16 --json widths.json\n"
      "  ashlar bench MODEL --kernels --json kernels.json\n"
      "  ashlar bench MODEL --drafters MODEL-dflash,MODEL-eagle3,mtp\n"
      "  ashlar bench serve --url http://127.0.0.1:8080");
  CLI::App* serve = add_bench_serve_command(*command);
  command->callback([options, command, serve] {
    if (!command->got_subcommand(serve)) bench(*options);
  });
  return command;
}

}  // namespace ashlar
