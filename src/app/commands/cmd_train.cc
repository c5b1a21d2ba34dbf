// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/command_line/config_file.h"
#include "app/commands/commands.h"
#include "app/train/served_drafter.h"
#include "app/train/train_flags.h"
#include "app/train/train_places.h"
#include "app/train/train_view.h"
#include "base/error.h"
#include "base/machine/available_memory.h"
#include "device/device_name.h"
#include "io/durable_file.h"
#include "io/folder_lock.h"
#include "io/mapped_file.h"
#include "io/weights/weights_mark.h"
#include "measure/report/report_file.h"
#include "measure/report/table.h"
#include "session/interrupt.h"
#include "session/memory_plan.h"
#include "session/output.h"
#include "session/progress.h"
#include "session/session.h"
#include "session/terminal.h"
#include "train/data/frequent_tokens.h"
#include "train/replicas/train_devices.h"
#include "train/run/capture_run.h"
#include "train/run/served_evaluation.h"
#include "train/run/step_timing.h"
#include "train/run/train_methods.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kEvaluatedAnchors = 512;  // of a document: so that whatever is trained with is evaluated alike

// What a run that was killed before its first checkpoint leaves there.
bool is_left_over(const std::string& name, bool answers) {
  return name == TrainRun::kSettings || name == TrainRun::kAsked || name == TrainRun::kLog ||
         name == TrainLog::kEvents || (answers && name == RegenerationOptions::kFile) ||
         std::ranges::any_of(TrainRun::kFiles, [&](const char* file) { return is_unfinished(name, file); });
}

// What is wrong with the paths is said before a model is loaded.
void check_paths(const TrainCommand& command, const TrainOptions& train) {
  for (const DataFile& file : train.data) {
    if (!file_exists(file.path)) {
      throw Error("train", file.path.string() + ": there is no such file; expected JSON a line");
    }
  }
  if (!command.capture && !train.hidden_states.empty() && !fs::is_directory(train.hidden_states)) {
    throw Error("train", train.hidden_states.string() + ": is no folder; --capture writes hidden states there");
  }
  if (command.capture) return;
  const fs::path& folder = train.output;
  const bool state = TrainRun::has_state(folder), begun = file_exists(folder / TrainRun::kSettings);
  const bool drafter =
      std::ranges::any_of(train_methods(), [&](const TrainMethod& method) { return method.is_folder(folder); });
  const auto fail = [&](const std::string& what) { throw Error("train", folder.string() + ": " + what); };
  if (command.evaluate) {
    if (!drafter) fail("is no drafter to evaluate");
    return;
  }
  if (train.resume) {
    // A state is written before the first drafter: one without it is of a run whose state was removed.
    if (!state && drafter) {
      fail("holds a drafter without " + std::string(TrainRun::kState) + ", which --resume goes on from; --from " +
           folder.string() + " and another -o start another training from the drafter");
    }
    if (state) return;
    if (!begun) fail("has no state of a training run to go on with; leave --resume out to begin one");
  } else if (state || drafter) {
    fail("holds a drafter already; " + std::string(state ? "--resume goes on with its training, " : "") + "--from " +
         folder.string() + " starts another one from it, or name a new folder");
  }
  if (!file_exists(folder)) return;
  if (!fs::is_directory(folder)) fail("is no folder");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_left_over(entry.path().filename().string(), command.regeneration.wanted)) continue;
    fail(train.resume ? "holds no state of a training run to go on with, and other files than a new one has"
                      : "holds other files; expected a new or empty folder");
  }
}

int32_t mask_token_of(const TrainCommand& command, const Session& session) {
  const std::string& named = command.mask_token;
  const int32_t vocab = session.config().vocab;
  if (named.empty()) return find_mask_token(session.tokenizer(), vocab, session.stop_ids());
  if (const auto id = session.tokenizer().token_id(named)) return *id;
  const bool digits = named.find_first_not_of("0123456789") == std::string::npos && named.size() < 9;
  if (!digits) throw Error("train", "--mask-token is " + for_message(named) + "; expected a token or its id");
  return std::stoi(named);
}

TrainedDrafter drafter_of(const TrainCommand& command, const TrainOptions& options, const Session& session) {
  const TrainMethod& method = *find_train_method(command.method);
  const fs::path folder = command.evaluate ? options.output : options.from;
  if (folder.empty()) {
    return method.design(session.config(), options.drafter, [&] { return mask_token_of(command, session); });
  }
  for (const TrainMethod& other : train_methods()) {
    if (&other == &method || method.is_folder(folder) || !other.is_folder(folder)) continue;
    throw Error("train",
                folder.string() + " is " + other.what + ", not " + method.what + "; expected --method " + other.name);
  }
  DrafterWishes wishes = options.drafter;
  if (command.evaluate) wishes.head.clear();
  return method.read(folder, session.config(), wishes);
}

// `answers`: those to the data's prompts, which are trained on instead, if they were asked for.
DocumentSet documents_of(const TrainOptions& options, const Session& session, const RegeneratedData* answers) {
  const DocumentEncoder encoder(session.tokenizer(), session.chat_template(), session.stop_ids(),
                                session.config().vocab);
  const Activity activity("reading the data");
  const int32_t longest = longest_of(options, session);
  if (answers != nullptr) return read_documents(answers->path, answers->parts, encoder, longest);
  return read_documents(options.data, encoder, longest);
}

void choose_steps(TrainOptions& options, const TrainDevices& devices, const DocumentSet& documents,
                  const TrainedDrafter& drafter) {
  if (options.steps > 0) return;
  if (options.minutes > 0 && options.resume) {
    options.steps = TrainRun::planned_steps(options.output);
    return;
  }
  if (options.minutes > 0) {
    const double each = seconds_a_step(devices, documents, drafter, options);
    options.steps = steps_within(options.minutes, each);
    return;
  }
  BatchOrder order(ordered_documents(documents, documents.training()), options.batch_tokens, options.seed);
  options.steps = std::max<int64_t>(1, order.steps_of(options.epochs));
}

std::string list_text(const std::vector<int32_t>& values) {
  std::string text;
  for (const int32_t value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

std::string plan_text(const Session& session, const TrainedDrafter& drafter, const TrainRun& run,
                      const DocumentSet& documents, const TrainOptions& options) {
  const TrainMemory memory = run.memory();
  const AvailableMemory available = session.ops().available_memory();
  const int64_t target = static_cast<int64_t>(session.model().weight_bytes());
  std::string text = "drafter  " + drafter.summary + ", " + format_count(memory.parameters) + " parameters, block " +
                     std::to_string(drafter.shape.block) + ", reads layers " + list_text(drafter.aux_layers);
  if (const auto& mask = drafter.mask_id) {
    text += ", mask token " + std::to_string(*mask) + " " + std::string(session.tokenizer().token_content(*mask));
  }
  text += "\n";
  if (drafter.draft_vocab > 0) {
    text += "         drafts " + std::to_string(drafter.draft_vocab) + " of " + std::to_string(session.config().vocab) +
            " tokens, which are " + percent(share_of_learnt(documents, drafter.shape.draft_ids)) +
            " of what is learnt\n";
  }
  for (const std::string& line : describe_data(documents, options.max_length)) text += "data     " + line + "\n";
  text += "         held out for the evaluation: " + std::to_string(documents.held_out().size()) + "\n";
  text += "steps    " + std::to_string(options.steps) + ", each of about " + std::to_string(options.batch_tokens) +
          " tokens" + (options.gpus > 1 ? " that " + std::to_string(options.gpus) + " GPUs share" : "") + "\n";
  text += "memory   " + format_bytes(target + memory.training + memory.step + memory.hidden + memory.capture) +
          ": the target " + format_bytes(target) + ", the drafter with gradients and moments " +
          format_bytes(memory.training) + ", activations and the optimiser's room of a step " +
          format_bytes(memory.step) + ", hidden states of a batch " + format_bytes(memory.hidden) + ", their capture " +
          format_bytes(memory.capture) + "; " + format_bytes(available.bytes + available.reserved) +
          (available.owner.empty() ? "" : " of " + available.owner + "'s memory") + " are free\n";
  return text;
}

void evaluate_drafter(const TrainCommand& command, Session& session, const DocumentSet& documents,
                      const TrainedDrafter& drafter, TrainOptions options, ReportFile& json_file) {
  const std::vector<size_t> held_out = documents.held_out();
  if (held_out.empty()) {
    print_note("no evaluation: there are fewer than ten documents in each file, and none is held out");
    return;
  }
  EvaluationFigures figures;
  figures.n_documents = held_out.size();
  const ServedEvaluation served = evaluate_served(session, options.output, drafter.shape.block, documents, held_out,
                                                  options.max_answer_tokens, "answering held-out prompts");
  figures.served = served.acceptance;
  options.steps = 1;
  options.gpus = 1;
  options.max_anchors = std::max(options.max_anchors, kEvaluatedAnchors);
  const TrainDevices device = open_devices(session, 1);
  TrainRun run(device.places(), documents, drafter, options);
  run.start_from(options.output);
  std::vector<EncodedDocument> own;
  for (const size_t document : held_out) own.push_back(documents.document(document));
  figures.documents = run.evaluate(own);
  figures.answers = run.evaluate(served.answered);
  figures.steps = run.evaluate_in_steps(served.answered);
  write_output(evaluation_text(figures));
  if (!command.evaluate) write_record(options.output, served.acceptance);
  if (json_file.wanted()) json_file.write(evaluation_json(figures).dump(1) + "\n");
}

// `asked`: the command's flags. Returns whether the end was reached without a wish to stop.
bool train_drafter(const Session& session, const TrainDevices& devices, const DocumentSet& documents,
                   const TrainedDrafter& drafter, const TrainOptions& options, const std::string& asked) {
  TrainRun run(devices.places(), documents, drafter, options);
  const bool goes_on = options.resume && TrainRun::has_state(options.output);
  const fs::path& from = options.from.empty() ? drafter.start : options.from;
  if (!goes_on && !from.empty()) run.start_from(from);
  if (options.resume) run.resume();
  if (options.resume && !goes_on) print_note("no step had been saved yet; training begins with the first one");
  const std::string plan = plan_text(session, drafter, run, documents, options);
  print_note(plan.substr(0, plan.size() - 1));
  const fs::path flags = options.output / TrainRun::kAsked;
  if (!goes_on || !file_exists(flags)) write_durably(flags, asked);
  const InterruptScope interruptible(InterruptScope::Signals::kInterruptAndTerminate);
  TrainView view;
  const bool finished = run.run(view, InterruptScope::requested);
  view.hide();
  if (!finished) {
    print_note("stopped after step " + std::to_string(run.steps_done()) + " of " + std::to_string(run.steps()) +
               "; all is saved in " + options.output.string() + ", the same command with --resume goes on");
  }
  if (!finished || !InterruptScope::requested()) return finished;
  print_note("the last step is done and all is saved in " + options.output.string() + "; --evaluate evaluates it");
  return false;
}

// Hidden states alone. Returns whether all are there.
bool capture_states(const Session& session, const DocumentSet& documents, const TrainedDrafter& drafter,
                    const TrainOptions& options) {
  const HiddenLayout layout = hidden_layout(drafter, session.config(), options);
  const auto all = static_cast<int64_t>(documents.training().size());
  print_note("hidden states of " + std::to_string(all) + " documents take " +
             format_bytes(capture_bytes(session.model(), documents, layout)) + " in " + options.hidden_states.string());
  int64_t done = 0;
  {
    const InterruptScope interruptible(InterruptScope::Signals::kInterruptAndTerminate);
    Progress progress("capturing", all);
    done = capture_documents(
        session.model(), documents, HiddenStore(options.hidden_states, layout), longest_of(options, session),
        [&](int64_t now) {
          progress.update(now);
          return !InterruptScope::requested();
        },
        [&](const std::string& what) {
          progress.hide();
          print_warning(what + "; it is made anew");
        });
  }
  if (done == all) {
    print_note("all are there; the same command without --capture trains on them");
  } else {
    print_note("stopped at " + std::to_string(done) + " of " + std::to_string(all) + "; the same command goes on");
  }
  return done == all;
}

void dry_run(const Session& session, const TrainDevices& devices, const DocumentSet& documents,
             const TrainedDrafter& drafter, const TrainOptions& options) {
  std::string text;
  {
    const TrainRun run(devices.places(), documents, drafter, options);
    text = plan_text(session, drafter, run, documents, options);
  }
  const double each = seconds_a_step(devices, documents, drafter, options);
  write_output(text + "time     about " + duration_text(each * static_cast<double>(options.steps)) + ", " +
               three_digits(each) + " s a step\n");
}

void train(TrainCommand& command, const std::string& asked) {
  TrainOptions options = train_options(command);
  check_paths(command, options);
  const DeviceChoice chosen = choose_device(command.session.device, command.session.device_options);
  command.session.device = chosen.name;
  if (!chosen.note.empty() && !command.session.quiet) print_note(chosen.note);
  devices_from(command.session.device, options.gpus);
  ReportFile json_file(command.json);
  command.session.drafter = "none";
  if (command.regeneration.wanted) {
    command.session.engine.max_sequences = command.regeneration.batch;
    command.session.engine.max_step_rows =
        std::max(command.session.engine.max_step_rows, 2 * command.regeneration.batch);
  }
  Session session(command.session);
  if (!command.session.quiet) {
    for (const std::string& note : session.notes()) print_note(note);
  }
  options.target = weights_mark(session.choice().model);
  TrainedDrafter drafter = drafter_of(command, options, session);
  std::optional<FolderLock> lock;
  if (!command.capture && !command.evaluate && (!command.dry_run || command.regeneration.wanted)) {
    lock.emplace(options.output);
    check_paths(command, options);  // again: another run may have ended meanwhile
  }
  std::optional<RegeneratedData> answers;
  if (command.regeneration.wanted) {
    answers = regenerate(session, options, command.regeneration, longest_of(options, session));
    if (!answers) {
      print_note("stopped; the same command goes on with the answers");
      throw CLI::RuntimeError(kInterruptedExit);
    }
  }
  const DocumentSet documents = documents_of(options, session, answers ? &*answers : nullptr);
  if (drafter.draft_vocab > 0 && drafter.shape.draft_ids.empty()) {
    drafter.shape.draft_ids = frequent_tokens(documents, session.config().vocab, drafter.draft_vocab);
  }
  if (command.capture) {
    if (!capture_states(session, documents, drafter, options)) throw CLI::RuntimeError(kInterruptedExit);
    return;
  }
  if (command.evaluate) return evaluate_drafter(command, session, documents, drafter, options, json_file);
  if (options.resume && !options.compute) options.compute = TrainRun::compute_of(options.output);
  {
    const TrainDevices devices = open_devices(session, options.gpus);
    choose_steps(options, devices, documents, drafter);
    if (command.dry_run) return dry_run(session, devices, documents, drafter, options);
    if (!train_drafter(session, devices, documents, drafter, options, asked)) throw CLI::RuntimeError(kInterruptedExit);
  }
  evaluate_drafter(command, session, documents, drafter, options, json_file);
}

}  // namespace

CLI::App* add_train_command(CLI::App& app) {
  auto options = std::make_shared<TrainCommand>();
  CLI::App* command = app.add_subcommand("train", "Train a drafter for a model on your own conversations");
  add_train_flags(*command, *options);
  command->footer(
      "Ctrl-C or SIGTERM ends the step, saves and says how to go on. docs/training.md has the forms of data and what "
      "goes wrong.\n"
      "Examples:\n"
      "  ashlar train --data chats.jsonl -o my-drafter --minutes 10\n"
      "  ashlar train MODEL --data chats.jsonl -o my-drafter --dry-run\n"
      "  ashlar train MODEL --data questions.jsonl --regenerate -o my-drafter --device cuda\n"
      "  ashlar train MODEL --data chats.jsonl --method eagle3 -o my-head\n"
      "  ashlar run MODEL --drafter my-drafter --prompt \"Hello\"");
  add_train_parts(*command);
  command->callback([options, command] {
    if (!command->get_subcommands().empty()) return;
    check_train_flags(*command, *options);
    train(*options, given_settings(*command));
  });
  return command;
}

}  // namespace ashlar
