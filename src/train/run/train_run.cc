// SPDX-License-Identifier: Apache-2.0
#include "train/run/train_run.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/clock.h"
#include "base/error.h"
#include "io/durable_file.h"
#include "io/mapped_file.h"
#include "train/data/fingerprint.h"
#include "train/export/drafter_folder.h"
#include "train/replicas/batch_split.h"

namespace ashlar {
namespace {

constexpr int64_t kSaveNs = 300'000'000'000;
constexpr int64_t kMaxSkippedInARow = 10;

std::string loss_name(const std::optional<DistributionLoss>& loss) {
  return std::ranges::find(kLosses, loss, &NamedLoss::loss)->name;
}

// What decides the result. Not here: where it is written, how often, and how far this call goes.
Json settings_of(const DocumentSet& documents, const TrainedDrafter& drafter, const TrainOptions& options,
                 DType compute) {
  Json settings = {{"target", options.target},
                   {"steps", options.steps},
                   {"batch_tokens", options.batch_tokens},
                   {"max_length", options.max_length},
                   {"max_anchors", options.max_anchors},
                   {"learning_rate", options.learning_rate},
                   {"schedule", options.schedule == LearningRateSchedule::kLinear ? "linear" : "cosine"},
                   {"loss", loss_name(options.distribution)},
                   {"weights", options.weights == PositionWeights::kDpace ? "dpace" : "decay"},
                   {"selector_weight", options.selector_weight},
                   {"optimizer", options.optimiser == MatrixOptimiser::kMuon ? "muon" : "adamw"},
                   {"compute", name_of(compute)},
                   {"gpus", options.gpus},
                   {"seed", options.seed},
                   {"documents", documents.size()},
                   {"data_fingerprint", documents.fingerprint()},
                   {"drafter", drafter.settings}};
  const std::vector<int32_t>& drafted = drafter.shape.draft_ids;
  if (!drafted.empty()) settings["drafted_tokens"] = fingerprint_with(kNoBytes, std::as_bytes(std::span(drafted)));
  return settings;
}

// For people: with what the settings that decide the result were made of.
Json said_settings(Json settings, const TrainOptions& options) {
  settings["data"] = Json::array();
  for (const DataFile& file : options.data) {
    settings["data"].push_back({{"file", file.path.string()}, {"weight", file.weight}});
  }
  if (!options.from.empty()) settings["from"] = options.from.string();
  if (options.minutes > 0) {
    settings["minutes"] = options.minutes;
  } else {
    settings["epochs"] = options.epochs;
  }
  return settings;
}

void check_agreement(const std::filesystem::path& path, const Json& saved, const Json& asked) {
  for (const auto& [key, value] : asked.items()) {
    const Json before = saved.value(key, Json());
    if (before == value) continue;
    throw Error("train", path.string() + ": was trained with " + key + " " + for_message(before.dump(), 60) +
                             ", and now it is " + for_message(value.dump(), 60) +
                             "; --resume needs the same, --from starts another run from a drafter");
  }
}

struct SavedSettings {
  std::filesystem::path path;  // of the file that has them
  Json settings;
};

// A run that was killed before its first checkpoint has no state, only what it began with.
SavedSettings saved_settings(const std::filesystem::path& output) {
  constexpr size_t kMaxBytes = 1 << 20;
  if (TrainRun::has_state(output)) {
    const std::filesystem::path path = output / TrainRun::kState;
    return {path, read_train_progress(path).settings};
  }
  const std::filesystem::path path = output / TrainRun::kSettings;
  return {path, complete_settings(parse_json(read_text_file(path, kMaxBytes), path.string()), path)};
}

Json log_line(const StepFigures& figures) {
  return {{"step", figures.step},
          {"epoch", figures.epoch},
          {"loss", figures.report.loss},
          {"expected_acceptance", figures.report.expected_acceptance},
          {"position_accuracy", figures.report.position_accuracy},
          {"gradient_norm", figures.report.gradient_norm},
          {"blocks", figures.report.blocks},
          {"tokens", figures.tokens},
          {"seconds", figures.seconds},
          {"skipped", figures.report.skipped}};
}

// Means of both, weighted by their blocks.
void add_report(TrainReport& all, const TrainReport& part) {
  if (part.blocks == 0) return;
  const double share = static_cast<double>(part.blocks) / static_cast<double>(all.blocks + part.blocks);
  const auto mix = [share](double& to, double from) { to += share * (from - to); };
  mix(all.loss, part.loss);
  mix(all.expected_acceptance, part.expected_acceptance);
  all.position_accuracy.resize(part.position_accuracy.size());
  for (size_t i = 0; i < part.position_accuracy.size(); ++i) mix(all.position_accuracy[i], part.position_accuracy[i]);
  all.blocks += part.blocks;
}

// Of a document in a step, which is what its time depends on: its tokens and the rows of its blocks.
int64_t rows_of(const EncodedView& document, const TrainedDrafter& drafter, const TrainOptions& options) {
  const auto learnt = std::count(document.supervised.begin(), document.supervised.end(), uint8_t{1});
  return static_cast<int64_t>(document.ids.size()) +
         drafter.shape.block * std::min<int64_t>(learnt, options.max_anchors);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// The first tensor whose weights or moments differ; empty: none.
std::string first_difference(std::span<const TrainParameter> a, std::span<const TrainParameter> b) {
  ASHLAR_CHECK_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i].values, b[i].values) || !same_bits(a[i].m, b[i].m) || !same_bits(a[i].v, b[i].v)) {
      return a[i].name;
    }
  }
  return {};
}

// Room for a document and for an evaluation's prompt with its answer.
int32_t longest_of(const Model& model, const TrainOptions& options) {
  return std::min(model.max_positions(), options.max_length + options.max_answer_tokens);
}

}  // namespace

TrainRun::TrainRun(Model& model, const DocumentSet& documents, const TrainedDrafter& drafter,
                   const TrainOptions& options, const MakeTrainer& make_trainer)
    : TrainRun(std::vector<TrainPlace>{{&model, make_trainer}}, documents, drafter, options) {}

TrainRun::TrainRun(std::span<const TrainPlace> places, const DocumentSet& documents, const TrainedDrafter& drafter,
                   const TrainOptions& options)
    : target_(*places.front().model),
      documents_(documents),
      drafter_(drafter),
      options_(options),
      training_(documents.training()),
      order_(
          std::make_unique<BatchOrder>(ordered_documents(documents, training_), options.batch_tokens, options.seed)) {
  ASHLAR_CHECK_EQ(places.size(), static_cast<size_t>(options.gpus));
  for (const TrainPlace& place : places) {
    replicas_.push_back(std::make_unique<Replica>(place, drafter, options, longest_of(*place.model, options)));
  }
  threads_ = std::make_unique<ReplicaThreads>(options.gpus);
  progress_.settings = settings_of(documents, drafter, options, first().trainer().compute());
}

bool TrainRun::has_state(const std::filesystem::path& output) { return file_exists(output / kState); }

int64_t TrainRun::planned_steps(const std::filesystem::path& output) {
  const SavedSettings saved = saved_settings(output);
  return JsonFields(saved.settings, saved.path.string(), "train").integer("steps", 1, INT64_MAX);
}

DType TrainRun::compute_of(const std::filesystem::path& output) {
  const SavedSettings saved = saved_settings(output);
  const std::string compute = JsonFields(saved.settings, saved.path.string(), "train").string("compute");
  return compute == name_of(DType::kF32) ? DType::kF32 : DType::kBF16;
}

void TrainRun::start_from(const std::filesystem::path& folder) {
  check_vocabulary(folder, target_, drafter_.shape.draft_ids);
  for (const auto& replica : replicas_) load_drafter_weights(folder, replica->trainer().parameters());
}

void TrainRun::resume() {
  const SavedSettings saved = saved_settings(options_.output);
  check_agreement(saved.path, saved.settings, progress_.settings);
  if (!has_state(options_.output)) {  // whose weights are those that it began with
    check_agreement(saved.path, {{"from", saved.settings.value("from", Json(""))}}, {{"from", options_.from.string()}});
    return;
  }
  const std::filesystem::path path = options_.output / kState;
  drafter_is_older_ = true;
  for (const auto& replica : replicas_) {
    progress_ = load_train_state(path, replica->trainer().parameters());
    replica->trainer().set_steps_done(progress_.step);
  }
}

// Who computes a document follows from the step's documents alone.
TrainReport TrainRun::step_of_all(std::span<const EncodedView> documents) {
  std::vector<int64_t> costs;
  for (const EncodedView& document : documents) costs.push_back(rows_of(document, drafter_, options_));
  const std::vector<int32_t> shares = split_evenly(costs, options_.gpus);
  TrainReport report;
  threads_->run(
      [&](int32_t share) {
        Replica& replica = *replicas_[static_cast<size_t>(share)];
        const TrainReport own = replica.trainer().step(replica.capture(documents, shares, share));
        if (share == 0) report = own;
      },
      [&](int32_t share) { replicas_[static_cast<size_t>(share)]->abandon(); });
  return report;
}

StepFigures TrainRun::step() {
  const int64_t begin = now_ns();
  StepFigures figures;
  figures.steps = options_.steps;
  figures.epoch = order_->epoch_of(progress_.step);
  std::vector<EncodedView> chosen;
  for (const int32_t index : order_->batch(progress_.step)) {
    const size_t document = training_[static_cast<size_t>(index)];
    chosen.push_back({documents_.ids(document), documents_.supervised(document), document});
    figures.tokens += documents_.length(document);
  }
  figures.report = step_of_all(chosen);
  figures.step = ++progress_.step;
  skipped_in_a_row_ = figures.report.skipped ? skipped_in_a_row_ + 1 : 0;
  if (figures.report.skipped) ++progress_.skipped;
  figures.skipped = progress_.skipped;
  figures.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  return figures;
}

void TrainRun::go_to(int64_t steps_done) {
  progress_.step = steps_done;
  for (const auto& replica : replicas_) replica->trainer().set_steps_done(steps_done);
}

void TrainRun::check_replicas() const {
  for (size_t i = 1; i < replicas_.size(); ++i) {
    const std::string differs = first_difference(parameters(), parameters(static_cast<int32_t>(i)));
    if (differs.empty()) continue;
    throw Error("train", "after step " + std::to_string(progress_.step) + " GPU " + std::to_string(i) +
                             " has another " + differs + " than GPU 0; several GPUs must be of one kind (" +
                             options_.output.string() + " has what was saved before)");
  }
}

// The state first: a kill between the two leaves a drafter that is older than the state, or none, which run() mends.
void TrainRun::save() {
  check_replicas();
  std::filesystem::create_directories(options_.output);
  save_train_state(options_.output / kState, parameters(), progress_);
  write_drafter();
}

void TrainRun::write_drafter() {
  DrafterExport form = drafter_.exported(options_.form, target_, drafter_.shape);
  std::vector<TensorToWrite> all = values_of(parameters());
  std::ranges::move(form.frozen, std::back_inserter(all));
  write_drafter_folder(options_.output, form.config, all);
  drafter_is_older_ = false;
}

bool TrainRun::save_is_due(int64_t saved_step, int64_t saved_ns) const {
  if (options_.checkpoint_every > 0) return progress_.step - saved_step >= options_.checkpoint_every;
  return now_ns() - saved_ns >= kSaveNs;
}

bool TrainRun::run(TrainListener& listener, const std::function<bool()>& stop) {
  std::filesystem::create_directories(options_.output);
  for (const char* file : kFiles) remove_unfinished(options_.output / file);
  if (drafter_is_older_) write_drafter();
  write_durably(options_.output / kSettings, said_settings(progress_.settings, options_).dump(2) + "\n");
  TrainLog log(options_.output / kLog, progress_.step);
  int64_t saved_step = progress_.step, saved_ns = now_ns();
  const auto save_now = [&] {
    save();
    saved_step = progress_.step;
    saved_ns = now_ns();
    listener.on_checkpoint(saved_step);
  };
  while (progress_.step < options_.steps && !stop()) {
    StepFigures figures;
    try {
      figures = step();
    } catch (const HiddenServerError& error) {  // before anything of the step was computed
      if (saved_step != progress_.step) save_now();
      throw Error("train", std::string(error.message()) + " (" + options_.output.string() +
                               " has the steps before; go on with --resume)");
    }
    for (const auto& replica : replicas_) {
      const std::string why = replica->take_not_kept();
      if (!why.empty()) listener.on_warning("hidden states are kept no more, and computed each time: " + why);
    }
    log.write(log_line(figures));
    listener.on_step(figures);
    if (skipped_in_a_row_ >= kMaxSkippedInARow) {
      throw Error("train", "the loss or the gradient of " + std::to_string(skipped_in_a_row_) +
                               " steps in a row was no number; try a lower --learning-rate (" +
                               options_.output.string() + " has what was saved before)");
    }
    if (save_is_due(saved_step, saved_ns)) save_now();
  }
  if (saved_step != progress_.step || !has_state(options_.output)) save_now();
  return progress_.step >= options_.steps;
}

TrainReport TrainRun::evaluate(std::span<const EncodedDocument> documents) {
  TrainReport all;
  std::vector<EncodedView> group;
  int64_t tokens = 0;
  const auto evaluate_group = [&] {
    if (!group.empty()) add_report(all, first().trainer().evaluate(first().capture(group)));
    group.clear();
    tokens = 0;
  };
  for (const EncodedDocument& document : documents) {
    if (tokens + static_cast<int64_t>(document.ids.size()) > options_.batch_tokens) evaluate_group();
    group.push_back({document.ids, document.supervised});
    tokens += static_cast<int64_t>(document.ids.size());
  }
  evaluate_group();
  return all;
}

SteppedAcceptance TrainRun::evaluate_in_steps(std::span<const EncodedDocument> documents) {
  SteppedAcceptance all;
  all.accepted_at.resize(static_cast<size_t>(drafter_.shape.block - 1));
  for (const EncodedDocument& document : documents) {
    const EncodedView view = {document.ids, document.supervised};
    const TrainDocument& captured = first().capture({&view, 1}).front();
    const auto last = static_cast<int64_t>(document.ids.size()) - 1;
    // The first token of the answer comes with the prompt.
    int64_t anchor = last;
    while (anchor > 0 && document.supervised[static_cast<size_t>(anchor - 1)] != 0) --anchor;
    while (anchor < last) {
      const int32_t accepted = first().trainer().accepted(captured, static_cast<int32_t>(anchor));
      ++all.steps;
      all.tokens += std::min<int64_t>(accepted + 1, last - anchor);
      if (accepted > 0) ++all.first_accepted;
      for (int32_t i = 0; i < accepted; ++i) ++all.accepted_at[static_cast<size_t>(i)];
      anchor += accepted + 1;
    }
  }
  return all;
}

TrainMemory TrainRun::memory() const {
  // The weight, its gradient, two moments; and a copy as products take it.
  const DType compute = first().trainer().compute();
  const size_t each = 4 * sizeof(float) + (compute == DType::kF32 ? 0 : bytes_of(compute));
  TrainMemory memory;
  for (const TrainParameter& tensor : parameters()) memory.parameters += static_cast<int64_t>(tensor.values.size());
  memory.training = memory.parameters * static_cast<int64_t>(each);
  int64_t longest = 0;
  for (const size_t document : training_) longest = std::max<int64_t>(longest, documents_.length(document));
  // The largest batch as documents of the greatest length.
  memory.step = first().trainer().step_bytes(std::max(longest, options_.batch_tokens));
  memory.hidden = std::max(longest, options_.batch_tokens) * first().hidden_token_bytes();
  memory.capture = first().capture_bytes();
  return memory;
}

}  // namespace ashlar
