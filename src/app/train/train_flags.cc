// SPDX-License-Identifier: Apache-2.0
#include "app/train/train_flags.h"

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/train/presets.h"
#include "base/error.h"
#include "model/drafters/head_config.h"
#include "train/data/example.h"
#include "train/run/train_methods.h"

namespace ashlar {
namespace {

void add_drafter_options(CLI::App& app, TrainCommand& command) {
  constexpr const char* kGroup = "Drafter";
  DrafterWishes& wishes = command.train.drafter;
  std::vector<std::pair<std::string, std::string>> methods;
  for (const TrainMethod& method : train_methods()) methods.emplace_back(method.name, method.name);
  add_choice<std::string>(
      app, "--method", command.method,
      "A block-diffusion drafter, an EAGLE-3 head, or the model's own or a new MTP layer (default: dflash)", methods)
      ->group(kGroup);
  app.add_option("--drafter-layers", wishes.layers, "Layers (default: a sixth of the target's, 1 to 5)")
      ->type_name("N")
      ->transform(whole(1, 64))
      ->group(kGroup);
  app.add_option("--block-size", wishes.block_size,
                 "Positions of a block, the last token included (default of eagle3: 8, of mtp: 4)")
      ->type_name("N")
      ->transform(whole(2, kMaxWidth))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--aux-layers", wishes.aux_layers,
                 "Target layers to read from (default: five, evenly from 1 to N-3; eagle3: three)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(whole(0, 999))
      ->type_name("N,...")
      ->group(kGroup);
  app.add_option("--sliding-window", wishes.window,
                 "Positions that each layer sees at most, for drafting in long contexts (default: all)")
      ->type_name("N")
      ->transform(whole(2, 1 << 24))
      ->group(kGroup);
  app.add_option("--draft-vocabulary", wishes.draft_vocab,
                 "eagle3: draft the N tokens alone that the data have most often (default: the model's vocabulary)")
      ->type_name("N")
      ->transform(whole(1, 1 << 24))
      ->group(kGroup);
  app.add_option("--mask-token", command.mask_token,
                 "Token of masked positions, or its id (default: one that no text becomes)")
      ->type_name("TOKEN")
      ->group(kGroup);
  std::vector<std::pair<std::string, std::string>> heads;
  for (const std::string& name : designed_heads()) heads.emplace_back(name, name);
  add_choice<std::string>(
      app, "--head", wishes.head,
      "dflash: plain; dflash2: a selector; dspark: logits by the draft before, rated (default: dflash)", heads)
      ->group(kGroup);
  std::vector<std::pair<std::string, DrafterForm>> forms;
  for (const NamedForm& named : kDrafterForms) forms.emplace_back(named.name, named.form);
  add_choice<DrafterForm>(app, "--format", command.train.form,
                          "Form of the folder: speculators repeats the model's embedding and head (default: z-lab)",
                          forms)
      ->group(kGroup);
  CLI::Option* from = app.add_option("--from", command.from, "Start from this drafter's weights, in its form");
  from->type_name("FOLDER")->group(kGroup);
  for (const char* flag :
       {"--drafter-layers", "--block-size", "--aux-layers", "--sliding-window", "--draft-vocabulary", "--mask-token"}) {
    from->excludes(app.get_option(flag));
  }
}

void add_regeneration_options(CLI::App& app, RegenerationOptions& options) {
  constexpr const char* kGroup = "Answers";
  CLI::Option* wanted = app.add_flag(
      "--regenerate", options.wanted,
      "Let the model answer the data's prompts, into answers.jsonl of the output folder, and train on that");
  wanted->group(kGroup);
  app.add_option("--answer-temperature", options.temperatures, "Of the answers, in turns (default: 0,0.7,0.85,1)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(number(0, 100))
      ->type_name("X,...")
      ->needs(wanted)
      ->group(kGroup);
  app.add_option("--answer-tokens", options.max_tokens, "Longest answer")
      ->type_name("N")
      ->transform(whole(2, 1 << 20))
      ->capture_default_str()
      ->needs(wanted)
      ->group(kGroup);
  app.add_option("--answer-batch", options.batch, "Answers at once")
      ->type_name("N")
      ->transform(whole(1, 512))
      ->capture_default_str()
      ->needs(wanted)
      ->group(kGroup);
}

void add_training_options(CLI::App& app, TrainOptions& options) {
  constexpr const char* kGroup = "Training";
  CLI::Option* steps = app.add_option("--steps", options.steps, "Steps (default: those of the epochs)");
  steps->type_name("N")->transform(whole(1, int64_t{1} << 40))->group(kGroup);
  CLI::Option* epochs = app.add_option("--epochs", options.epochs, "Times that every document is seen");
  epochs->type_name("N")->transform(whole(1, 1 << 20))->capture_default_str()->group(kGroup);
  app.add_option("--minutes", options.minutes, "As many steps as take about that long")
      ->type_name("X")
      ->transform(number_above(0, 1e6))
      ->excludes(steps)
      ->excludes(epochs)
      ->group(kGroup);
  epochs->excludes(steps);
  app.add_option("--batch-tokens", options.batch_tokens, "Tokens of a step's documents, which are never split")
      ->type_name("N")
      ->transform(whole(1, 1 << 24))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--anchors", options.max_anchors, "Blocks of a document in a step, each at another learnt token")
      ->type_name("N")
      ->transform(whole(1, 1 << 20))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--max-length", options.max_length, "Longer documents lose their end")
      ->type_name("N")
      ->transform(whole(2, 1 << 20))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--learning-rate", options.learning_rate, "Highest, after the warm-up")
      ->type_name("X")
      ->transform(number_above(0, 1))
      ->capture_default_str()
      ->group(kGroup);
  add_choice<LearningRateSchedule>(
      app, "--schedule", options.schedule, "How it falls to 0 after the warm-up (default: cosine)",
      {{"cosine", LearningRateSchedule::kCosine}, {"linear", LearningRateSchedule::kLinear}})
      ->group(kGroup);
  std::vector<std::pair<std::string, std::optional<DistributionLoss>>> losses;
  for (const NamedLoss& named : kLosses) losses.emplace_back(named.name, named.loss);
  add_choice<std::optional<DistributionLoss>>(
      app, "--loss", options.distribution,
      "What is learnt: tokens (ce), or the target's distributions, by one of four measures (default: ce)", losses)
      ->group(kGroup);
  add_choice<PositionWeights>(app, "--position-weights", options.weights,
                              "Positions weigh by how likely they are reached, or less and less (default: dpace; "
                              "eagle3, mtp: decay)",
                              {{"dpace", PositionWeights::kDpace}, {"decay", PositionWeights::kDecay}})
      ->group(kGroup);
  app.add_option("--selector-weight", options.selector_weight, "What a selector's own loss counts next to --loss")
      ->type_name("X")
      ->transform(number(0, 1000))
      ->capture_default_str()
      ->group(kGroup);
  add_choice<MatrixOptimiser>(app, "--optimizer", options.optimiser,
                              "AdamW, or Muon for matrices at ten times the rate: fewer, longer steps (default: adamw)",
                              {{"adamw", MatrixOptimiser::kAdamW}, {"muon", MatrixOptimiser::kMuon}})
      ->group(kGroup);
  add_choice<std::optional<DType>>(app, "--compute", options.compute,
                                   "What products multiply; weights, moments and sums are f32 (default: bf16 on a GPU)",
                                   {{"bf16", DType::kBF16}, {"f32", DType::kF32}})
      ->group(kGroup);
  app.add_option("--seed", options.seed, "Of the order, the blocks and the first weights")
      ->type_name("S")
      ->transform(whole(0, UINT64_MAX))
      ->capture_default_str()
      ->group(kGroup);
}

void add_preset(CLI::App& app, TrainCommand& command) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const TrainPreset& preset : train_presets()) names.emplace_back(preset.name, preset.name);
  add_choice<std::string>(app, "--preset", command.preset,
                          "A recipe (docs/training.md) for what neither other flags nor --config set", names);
}

void add_run_options(CLI::App& app, TrainCommand& command) {
  CLI::Option* resume = app.add_flag("--resume", command.train.resume, "Go on where the same command stopped");
  app.add_option("--checkpoint-every", command.train.checkpoint_every, "Steps (default: every five minutes)")
      ->type_name("N")
      ->transform(whole(1, int64_t{1} << 40));
  app.add_flag("--dry-run", command.dry_run, "Say what memory and time it would take, and write nothing")
      ->excludes(resume)
      ->excludes(app.get_option("--regenerate"));
  app.add_flag("--evaluate", command.evaluate, "Only evaluate the drafter that is in the output folder")
      ->excludes(resume)
      ->excludes(app.get_option("--dry-run"))
      ->excludes(app.get_option("--from"));
  CLI::Option* states = app.add_option(
      "--hidden-states", command.train.hidden_states,
      "Folder of the target's hidden states, computed where it has none; or a server's address that is asked");
  states->type_name("FOLDER|URL");
  app.add_option("--api-key", command.train.hidden_server.api_key, "Sent to the server of --hidden-states")
      ->type_name("KEY")
      ->envname("ASHLAR_API_KEY");
  app.add_flag("--capture", command.capture, "Only compute hidden states, into the folder of --hidden-states")
      ->needs(states)
      ->excludes(resume)
      ->excludes(app.get_option("--dry-run"))
      ->excludes(app.get_option("--evaluate"));
  app.add_option("--json", command.json, "Write the evaluation's figures to this file")->type_name("FILE");
  app.add_option("--config", command.config, "TOML file of settings: the names of these flags without the dashes")
      ->type_name("FILE");
  add_computing_flags(app, command.session);
  app.add_option("--gpus", command.train.gpus, "GPUs that share a step's documents, from that of --device on")
      ->type_name("N")
      ->transform(whole(1, 64))
      ->capture_default_str()
      ->group(app.get_option("--device")->get_group());
}

}  // namespace

void add_train_flags(CLI::App& app, TrainCommand& command) {
  app.add_option("MODEL", command.session.model, "Hugging Face model folder or .gguf file (default: the bundled model)")
      ->envname("ASHLAR_MODEL");
  app.add_option("--data", command.data,
                 "JSONL (messages, prompt and response, text, ids), or a folder of such; FILE:2 counts twice")
      ->type_name("FILE[:WEIGHT]")
      ->required()
      ->allow_extra_args(false);
  app.add_option("-o,--output", command.output, "Folder of the drafter, its state and its log")
      ->type_name("FOLDER")
      ->required();
  add_drafter_options(app, command);
  add_regeneration_options(app, command.regeneration);
  add_training_options(app, command.train);
  add_run_options(app, command);
  add_preset(app, command);
}

void check_train_flags(const CLI::App& app, const TrainCommand& command) {
  const TrainMethod& method = *find_train_method(command.method);
  for (const std::string& flag : method.foreign_flags) {
    if (app.get_option(flag)->count() == 0) continue;
    throw Error("train",
                flag + " means nothing to --method " + method.name + "; leave it out, here and in a --config file");
  }
}

TrainOptions train_options(const TrainCommand& command) {
  TrainOptions options = command.train;
  options.data = data_files(command.data);
  options.output = command.output;
  options.from = command.from;
  const std::string states = options.hidden_states.string();
  if (!states.starts_with("http://") && !states.starts_with("https://")) return options;
  if (command.capture) throw Error("train", "--capture writes to a folder; --hidden-states is " + for_message(states));
  options.hidden_server.url = states;
  options.hidden_states.clear();
  return options;
}

}  // namespace ashlar
