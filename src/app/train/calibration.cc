// SPDX-License-Identifier: Apache-2.0
#include "app/train/calibration.h"

#include <algorithm>
#include <string>
#include <vector>

#include "app/train/presets.h"
#include "app/train/served_drafter.h"
#include "app/train/train_flags.h"
#include "app/train/train_places.h"
#include "app/train/train_view.h"
#include "base/error.h"
#include "io/durable_folder.h"
#include "io/mapped_file.h"
#include "io/weights/gguf.h"
#include "io/weights/weights_mark.h"
#include "measure/report/table.h"
#include "session/interrupt.h"
#include "session/progress.h"
#include "session/terminal.h"
#include "train/data/traffic.h"
#include "train/run/step_timing.h"
#include "train/run/train_methods.h"
#include "train/run/train_run.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kHeldOutOneIn = 8;  // prompts
constexpr size_t kFewestEvaluated = DrafterComparison::kFewestPairs;
constexpr size_t kMaxEvaluated = 64;  // prompts: more cost time, and half of the noise is four times as many
// What a training run writes that its drafter is served without, and that others may want to keep.
constexpr const char* kFilesOfARun[] = {RegenerationOptions::kFile, TrainRun::kState};

[[noreturn]] void fail(const std::string& what) { throw Error("calibrate", what); }

void check_drafter(const fs::path& drafter) {
  if (!is_gguf(drafter) || !file_exists(drafter)) return;
  fail(drafter.string() + ": is a file; expected a folder of z-lab's, speculators' or SpecForge's form, which can be " +
       "trained");
}

const TrainMethod& method_of(const Session& session) {
  if (!session.has_drafter()) {
    fail(session.choice().model.string() +
         ": is served without a drafter; name one with --drafter, or make one with `ashlar train`");
  }
  check_drafter(*session.choice().drafter);
  const std::string name = session.spec().method;
  const TrainMethod* const method = find_train_method(name);
  if (method == nullptr || (!session.choice().drafts_itself && !method->is_folder(*session.choice().drafter))) {
    fail(session.choice().drafter->string() + ": is a drafter in a form that is not trained; expected a folder of " +
         "z-lab's, speculators' or SpecForge's");
  }
  return *method;
}

// What `ashlar train` would take for such a drafter.
TrainCommand command_of(const TrainMethod& method, const Session& session, const CalibrationOptions& options) {
  CLI::App app("", "train");
  TrainCommand command;
  add_train_flags(app, command);
  std::vector<std::string> args = {"MODEL", "--data=" + options.traffic.string(),
                                   "--output=" + options.folder().string(), std::string("--method=") + method.name};
  if (!session.choice().drafts_itself) args.push_back("--from=" + session.choice().drafter->string());
  args = with_train_preset(app, args);
  std::ranges::reverse(args);
  app.parse(args);
  return command;
}

TrainedDrafter drafter_of(const TrainMethod& method, const Session& session, const DrafterWishes& wishes) {
  if (!session.choice().drafts_itself) return method.read(*session.choice().drafter, session.config(), wishes);
  return method.design(session.config(), wishes, [] { return -1; });
}

struct Traffic {
  DocumentSet documents;
  std::vector<size_t> evaluated;
};

[[noreturn]] void fail_of_little(const CalibrationOptions& options, const std::string& what) {
  fail(options.traffic.string() + ": too little traffic: " + what + "; expected at least " +
       std::to_string(kFewestEvaluated) + ", of about " + std::to_string(kFewestEvaluated * kHeldOutOneIn) +
       " different prompts; let the server answer more");
}

Traffic read(const Session& session, const TrainOptions& train, const CalibrationOptions& options) {
  const Activity activity("reading the traffic");
  const DocumentEncoder encoder(session.tokenizer(), session.chat_template(), session.stop_ids(),
                                session.config().vocab);
  Traffic out = {read_traffic(options.traffic, train.target, encoder, longest_of(train, session)), {}};
  const std::vector<size_t> held_out = chosen_prompts(out.documents, options.seed, kHeldOutOneIn);
  out.evaluated = newest_of_each_prompt(out.documents, held_out, kMaxEvaluated);
  if (out.evaluated.size() < kFewestEvaluated) {
    fail_of_little(options,
                   std::to_string(out.documents.size()) + " answers, of which " + std::to_string(out.evaluated.size()) +
                       " prompts are kept to compare the drafters with (one in " + std::to_string(kHeldOutOneIn) + ")");
  }
  out.documents.hold_out(held_out);
  return out;
}

// As many as the data are worth, and the time allows.
int64_t steps_of(const TrainDevices& devices, const DocumentSet& documents, const TrainedDrafter& drafter,
                 const TrainOptions& train, const CalibrationOptions& options) {
  BatchOrder order(ordered_documents(documents, documents.training()), train.batch_tokens, train.seed);
  const int64_t worth = std::max<int64_t>(1, order.steps_of(options.epochs));
  return std::min(worth, steps_within(options.minutes, seconds_a_step(devices, documents, drafter, train)));
}

// Returns whether it came to its end.
bool train(Session& session, const Traffic& traffic, const TrainedDrafter& drafter, TrainOptions train,
           const CalibrationOptions& options) {
  const TrainDevices devices = open_devices(session, 1);
  train.steps = steps_of(devices, traffic.documents, drafter, train, options);
  train.checkpoint_every = train.steps;  // no run goes on with a part
  TrainRun run(devices.places(), traffic.documents, drafter, train);
  run.start_from(train.from.empty() ? drafter.start : train.from);
  for (const std::string& line : describe_data(traffic.documents, train.max_length)) print_note(line);
  print_note(std::to_string(train.steps) + " steps; " + std::to_string(traffic.documents.held_out().size()) +
             " documents are held out");
  TrainView view;
  const bool finished = run.run(view, InterruptScope::requested);
  view.hide();
  fs::remove(train.output / TrainRun::kState);
  return finished && !InterruptScope::requested();
}

}  // namespace

// A GGUF file is served, but none is written.
bool may_replace(const fs::path& folder) {
  return fs::is_directory(folder) &&
         std::ranges::any_of(train_methods(), [&](const TrainMethod& method) { return method.is_folder(folder); });
}

void check_output(const CalibrationOptions& options) {
  const fs::path folder = options.folder();
  if (!file_exists(folder)) return;
  if (!fs::is_directory(folder)) fail(folder.string() + ": is a file; expected a folder of a drafter, or a new one");
  if (may_replace(folder)) {
    for (const char* name : kFilesOfARun) {
      if (!file_exists(folder / name)) continue;
      fail(folder.string() + ": holds " + name + " of `ashlar train`, which would go with it; name another folder " +
           "with -o, and this one with --drafter");
    }
    return;
  }
  if (fs::is_empty(folder)) return;
  fail(folder.string() + ": holds files that are no drafter; expected a drafter, which a better one may replace, or " +
       "a new or empty folder");
}

void check_is_trained(const Session& session) { method_of(session); }

SessionOptions with_first_drafter(SessionOptions session, const CalibrationOptions& options) {
  const fs::path folder = options.folder();
  traffic_files(options.traffic);  // before a model is loaded
  check_output(options);
  check_drafter(session.drafter);
  if (!may_replace(folder)) return session;
  std::error_code failed;
  if (!session.drafter.empty() && !fs::equivalent(session.drafter, folder, failed)) {
    fail(folder.string() + ": holds a drafter already, which is the one to win against; leave --drafter " +
         session.drafter + " out, or name another folder with -o");
  }
  session.drafter = folder.string();
  return session;
}

std::optional<DrafterComparison> calibrate(Session& session, const CalibrationOptions& options) {
  const TrainMethod& method = method_of(session);
  const TrainCommand command = command_of(method, session, options);
  TrainOptions asked = train_options(command);
  asked.learning_rate = options.learning_rate;
  asked.seed = options.seed;
  asked.target = weights_mark(session.choice().model);
  const TrainedDrafter drafter = drafter_of(method, session, asked.drafter);
  const Traffic traffic = read(session, asked, options);
  const InterruptScope interruptible(InterruptScope::Signals::kInterruptAndTerminate);
  DurableFolder folder(options.folder());
  asked.output = folder.fresh();
  const auto served = [&](const fs::path& drafter_folder, const char* title) {
    return evaluate_served(session, drafter_folder, drafter.shape.block, traffic.documents, traffic.evaluated,
                           options.answer_tokens, title, InterruptScope::requested)
        .acceptance;
  };
  DrafterComparison comparison;
  comparison.before = served(*session.choice().drafter, "answering with the drafter as it is");
  if (InterruptScope::requested()) return std::nullopt;
  if (const size_t pairs = comparison.before.acceptance_length_per_step().pairs; pairs < kFewestEvaluated) {
    fail_of_little(options, "of " + std::to_string(comparison.before.prompts()) + " held-out prompts " +
                                std::to_string(pairs) + " have an answer of more than one token");
  }
  if (!train(session, traffic, drafter, asked, options)) return std::nullopt;
  comparison.after = served(folder.fresh(), "answering with the new one");
  if (InterruptScope::requested()) return std::nullopt;
  if (comparison.won()) {
    write_record(folder.fresh(), comparison.after);
    folder.commit();
  }
  return comparison;
}

Json comparison_json(const DrafterComparison& comparison, const CalibrationOptions& options) {
  const Ratio gain = comparison.gain();
  return {{"won", comparison.won()},
          {"pairs", gain.pairs},
          {"tokens_per_step_before", comparison.before.acceptance_length_per_step().value},
          {"tokens_per_step", comparison.after.acceptance_length_per_step().value},
          {"gain", gain.value},
          {"standard_error", gain.error},
          {"drafter", options.folder().string()}};
}

std::string comparison_text(const DrafterComparison& comparison, const std::string& model, const std::string& before,
                            const CalibrationOptions& options) {
  const Ratio gain = comparison.gain();
  TextTable table({"pairs of answers: " + std::to_string(gain.pairs), "tokens per step", "first draft"});
  const auto add = [&](const std::string& name, const AcceptanceTally& tally) {
    const std::vector<double> shares = tally.unconditional();
    table.add({name, fixed(tally.acceptance_length_per_step().value, 3),
               shares.empty() ? std::string("-") : percent(shares.front())});
  };
  add(before, comparison.before);
  add("trained on the traffic", comparison.after);
  const std::string folder = options.folder().string();
  const std::string found =
      "  gain " + fixed(gain.value, 3) + ", of which twice the standard error is " + fixed(2 * gain.error, 3) + ": ";
  if (!comparison.won()) return table.render() + found + "nothing won; no drafter was written or replaced\n";
  const fs::path last = DurableFolder::previous(options.folder());
  return table.render() + found + "written to " + folder +
         (file_exists(last) ? "; the one before is " + last.string() : "") + "\n  ashlar serve " +
         (model.empty() ? "" : model + " ") + "--drafter " + folder + "\n";
}

}  // namespace ashlar
