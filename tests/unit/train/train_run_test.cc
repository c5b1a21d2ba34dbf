// SPDX-License-Identifier: Apache-2.0
// The run around a trainer: order, log, checkpoints, resuming. The trainer here computes nothing sensible, but all that
// it does depends on every bit of what it is given.

#include "train/run/train_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "decode/registry.h"
#include "device/device.h"
#include "engine/engine.h"
#include "golden/direct_decoding.h"
#include "measure/completion.h"
#include "temp_folder.h"
#include "train/export/drafter_folder.h"
#include "train/run/capture_run.h"
#include "train/run/served_evaluation.h"
#include "unit/train/tiny_target.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int32_t kVocab = 96;

// A tensor of z-lab's names for a drafter of this form.
std::vector<std::pair<std::string, std::vector<int64_t>>> tensors_of(const DflashConfig& config) {
  const int64_t hidden = config.stack.hidden, wide = config.stack.intermediate;
  const AttentionShape& shape = config.stack.layers.front().shape;
  const auto n_aux = static_cast<int64_t>(config.aux_layers.size());
  std::vector<std::pair<std::string, std::vector<int64_t>>> out = {
      {"fc.weight", {hidden, n_aux * hidden}}, {"hidden_norm.weight", {hidden}}, {"norm.weight", {hidden}}};
  for (int32_t layer = 0; layer < config.stack.n_layers; ++layer) {
    const std::string base = "layers." + std::to_string(layer) + ".";
    out.push_back({base + "input_layernorm.weight", {hidden}});
    out.push_back({base + "post_attention_layernorm.weight", {hidden}});
    out.push_back({base + "self_attn.q_proj.weight", {shape.q_width(), hidden}});
    out.push_back({base + "self_attn.k_proj.weight", {shape.kv_width(), hidden}});
    out.push_back({base + "self_attn.v_proj.weight", {shape.kv_width(), hidden}});
    out.push_back({base + "self_attn.o_proj.weight", {hidden, shape.q_width()}});
    out.push_back({base + "self_attn.q_norm.weight", {shape.head_dim}});
    out.push_back({base + "self_attn.k_norm.weight", {shape.head_dim}});
    out.push_back({base + "mlp.gate_proj.weight", {wide, hidden}});
    out.push_back({base + "mlp.up_proj.weight", {wide, hidden}});
    out.push_back({base + "mlp.down_proj.weight", {hidden, wide}});
  }
  return out;
}

// Adam of a "gradient" that is noise of the step and of all it is given.
class NoisyTrainer : public Trainer {
 public:
  NoisyTrainer(const DflashConfig& config, const TrainOptions& options, std::function<bool(int64_t)> is_skipped)
      : is_skipped_(std::move(is_skipped)), compute_(options.compute.value_or(DType::kF32)) {
    std::mt19937 random(static_cast<uint32_t>(options.seed));
    std::normal_distribution<float> normal(0, 0.1F);
    for (const auto& [name, shape] : tensors_of(config)) {
      Array& array = arrays_.emplace_back();
      array.name = name;
      array.shape = shape;
      size_t n = 1;
      for (const int64_t size : shape) n *= static_cast<size_t>(size);
      array.values.resize(n);
      for (float& value : array.values) value = normal(random) + (shape.size() == 1 ? 1.0F : 0.0F);
      array.first.resize(n);
      array.second.resize(n);
    }
    for (Array& array : arrays_) {
      parameters_.push_back({array.name, array.shape, array.values, {}, array.first, array.second});
    }
  }

  TrainReport step(std::span<const TrainDocument> documents) override {
    TrainReport report = evaluate(documents);
    report.skipped = is_skipped_(steps_++);
    if (report.skipped) {
      report.loss = std::numeric_limits<double>::quiet_NaN();
      return report;
    }
    uint32_t seed = static_cast<uint32_t>(steps_);
    for (const TrainDocument& document : documents) {
      for (const int32_t id : document.ids) seed = seed * 31 + static_cast<uint32_t>(id);
      for (const uint8_t one : document.supervised) seed = seed * 31 + one;
      for (int32_t row = 0; row < document.aux_hidden.rows; ++row) {  // the device is the host's own
        for (int32_t i = 0; i < document.aux_hidden.cols; ++i) {
          seed = seed * 31 + std::bit_cast<uint32_t>(document.aux_hidden.row(row)[i]);
        }
      }
      if (document.final_hidden.data != nullptr) seed += std::bit_cast<uint32_t>(document.final_hidden.row(0)[0]);
    }
    std::mt19937 random(seed);
    for (Array& array : arrays_) {
      for (size_t i = 0; i < array.values.size(); ++i) {
        const float gradient = static_cast<float>(random()) * 0x1p-32F - 0.5F;
        array.first[i] = 0.9F * array.first[i] + 0.1F * gradient;
        array.second[i] = 0.99F * array.second[i] + 0.01F * gradient * gradient;
        array.values[i] -= 1e-3F * array.first[i] / (std::sqrt(array.second[i]) + 1e-8F);
      }
    }
    return report;
  }
  TrainReport evaluate(std::span<const TrainDocument> documents) override {
    TrainReport report;
    report.blocks = static_cast<int32_t>(documents.size());
    report.loss = 3.5;
    report.position_accuracy = {0.5, 0.25};
    report.expected_acceptance = 1.625;
    return report;
  }
  // By the anchor alone, so that a test can go through the steps by hand.
  int32_t accepted(const TrainDocument& document, int32_t anchor) override {
    return std::min(anchor % 3, static_cast<int32_t>(document.ids.size()) - 1 - anchor);
  }
  std::span<const TrainParameter> parameters() override { return parameters_; }
  DType compute() const override { return compute_; }
  int64_t step_bytes(int64_t tokens) const override { return tokens; }
  void set_steps_done(int64_t steps) override { steps_ = steps; }

 private:
  struct Array {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values, first, second;
  };
  std::vector<Array> arrays_;
  std::vector<TrainParameter> parameters_;
  std::function<bool(int64_t)> is_skipped_;
  DType compute_;
  int64_t steps_ = 0;
};

class TrainRunning : public TinyTarget {
 protected:
  // One thread: a fork has no others.
  TrainRunning() : TinyTarget(one_thread(), 10, 59) {}

  TrainOptions options(const fs::path& output, int64_t steps = 5) const {
    TrainOptions options;
    options.output = output;
    options.steps = steps;
    options.batch_tokens = 100;
    options.max_length = 64;
    options.checkpoint_every = 2;
    return options;
  }
  static MakeTrainer noisy(std::function<bool(int64_t)> is_skipped = [](int64_t) { return false; }) {
    return [is_skipped](const DflashConfig& config, const TrainOptions& options) {
      return std::make_unique<NoisyTrainer>(config, options, is_skipped);
    };
  }
  TrainRun make(const TrainOptions& options, const MakeTrainer& trainer = noisy()) {
    return TrainRun(*model_, documents_, drafter_, options, trainer);
  }
};

// A copy of a model folder whose weights are fp32.
fs::path rounded_to_bf16(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive);
  const Checkpoint checkpoint(from);
  std::vector<std::vector<float>> values;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    EXPECT_EQ(tensor->dtype, "F32");
    values.emplace_back(tensor->bytes / sizeof(float));
    std::memcpy(values.back().data(), tensor->data, tensor->bytes);
    tensors.push_back({name, tensor->shape, values.back(), TensorToWrite::Type::kBF16});
  }
  write_safetensors(to / "model.safetensors", tensors);
  return to;
}

const std::function<bool()> kNever = [] { return false; };

// Stops between two steps, as Ctrl-C does, wherever that is: what goes on is as if nothing had been.
TEST_F(TrainRunning, GoesOnToTheBitWhereverItStopped) {
  const TempFolder folder;
  EXPECT_TRUE(make(options(folder / "whole")).run(quiet_, kNever));
  for (const int after : {0, 1, 2, 3, 4}) {
    const TrainOptions parts = options(folder / std::to_string(after));
    int left = after;
    EXPECT_FALSE(make(parts).run(quiet_, [&] { return left-- == 0; }));
    TrainRun rest = make(parts);
    rest.resume();
    EXPECT_EQ(rest.steps_done(), after);
    EXPECT_TRUE(rest.run(quiet_, kNever));
    for (const char* file : {TrainRun::kState, "model.safetensors", "config.json", TrainRun::kSettings}) {
      EXPECT_EQ(bytes(parts.output / file), bytes(folder / "whole" / file)) << file << " after " << after;
    }
  }
}

// A kill -9 at many moments, also in the midst of a checkpoint: the folder holds an old or a new one, and what goes on
// from there ends like a run that was never killed.
TEST_F(TrainRunning, SurvivesAKillAtAnyMoment) {
  const TempFolder folder;
  TrainOptions parts = options(folder / "whole");
  parts.checkpoint_every = 1;
  EXPECT_TRUE(make(parts).run(quiet_, kNever));
  std::mt19937 random(8);
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    parts.output = folder / ("killed" + std::to_string(round));
    const pid_t child = fork();
    if (child == 0) {
      make(parts).run(quiet_, kNever);
      _exit(0);
    }
    usleep(static_cast<useconds_t>(random() % 60'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    TrainRun rest = make(parts);
    if (fs::exists(parts.output / TrainRun::kState)) rest.resume();
    EXPECT_TRUE(rest.run(quiet_, kNever));
    EXPECT_EQ(bytes(parts.output / TrainRun::kState), bytes(folder / "whole" / TrainRun::kState)) << round;
  }
  EXPECT_GT(killed, 0);
}

// The engine drafts with what was written, and says what it says without.
TEST_F(TrainRunning, TheFolderDraftsAndAnswersStay) {
  const TempFolder folder;
  EXPECT_TRUE(make(options(folder / "d", 3)).run(quiet_, kNever));
  const auto answers = [&](const DecoderSpec& spec) {
    Engine engine(*ops_, make_decoder(*model_, spec), {});
    return evaluate_as_served(engine, documents_, documents_.training(), {}, 24);
  };
  DecoderSpec drafted;
  drafted.method = method_of_drafter(folder / "d");
  drafted.drafter = folder / "d";
  drafted.dflash.width = 16;
  drafted.dflash.branches = 0;
  drafted.ngram = NgramUse::kNever;
  const ServedEvaluation plain = answers({}), fast = answers(drafted);
  ASSERT_EQ(plain.answered.size(), documents_.training().size());
  for (size_t i = 0; i < plain.answered.size(); ++i) {
    EXPECT_EQ(fast.answered[i].ids, plain.answered[i].ids);
    EXPECT_EQ(std::count(fast.answered[i].supervised.begin(), fast.answered[i].supervised.end(), 1), 24);
  }
  EXPECT_GT(fast.acceptance.drafted(), 0);
  EXPECT_EQ(plain.acceptance.drafted(), 0);
}

// From the disk, computed, or some of both: the same weights to the bit.
TEST_F(TrainRunning, HiddenStatesMayComeFromTheDisk) {
  const TempFolder folder;
  for (const auto& loss : {std::optional<DistributionLoss>(), std::optional(DistributionLoss::kKl)}) {
    const std::string name = loss ? "kl" : "ce";
    TrainOptions computed = options(folder / (name + "-computed"));
    computed.distribution = loss;
    EXPECT_TRUE(make(computed).run(quiet_, kNever));
    TrainOptions stored = computed;
    stored.output = folder / (name + "-stored");
    stored.hidden_states = folder / (name + "-states");
    const HiddenStore store(stored.hidden_states, hidden_layout(drafter_, model_->config(), stored));
    capture_documents(*model_, documents_, store, 64, [](int64_t) { return true; });
    EXPECT_TRUE(make(stored).run(quiet_, kNever));
    EXPECT_EQ(bytes(stored.output / TrainRun::kState), bytes(computed.output / TrainRun::kState)) << name;
    for (const size_t document : {3, 4, 11, 20, 21, 22}) fs::remove(store.path_of(document));
    stored.output = folder / (name + "-mixed");
    EXPECT_TRUE(make(stored).run(quiet_, kNever));
    EXPECT_EQ(bytes(stored.output / TrainRun::kState), bytes(computed.output / TrainRun::kState)) << name;
  }
  // What is there is used: other numbers make other weights.
  TrainOptions stored = options(folder / "other");
  stored.hidden_states = folder / "ce-states";
  const HiddenLayout layout = hidden_layout(drafter_, model_->config(), stored);
  const HiddenStore store(stored.hidden_states, layout);
  const auto ids = documents_.ids(0);
  const std::vector<float> ones(ids.size() * static_cast<size_t>(layout.width() + layout.hidden), 1.0F);
  write_hidden_file(store.path_of(0), ids, documents_.supervised(0), layout, {ones, {}, DType::kF32});
  EXPECT_TRUE(make(stored).run(quiet_, kNever));
  EXPECT_NE(bytes(folder / "other" / TrainRun::kState), bytes(folder / "ce-computed" / TrainRun::kState));
}

TEST_F(TrainRunning, StartsFromTheWeightsOfADrafter) {
  const TempFolder folder;
  EXPECT_TRUE(make(options(folder / "a", 2)).run(quiet_, kNever));
  TrainRun fresh = make(options(folder / "b", 2));
  fresh.start_from(folder / "a");
  fresh.save();
  EXPECT_EQ(bytes(folder / "a" / "model.safetensors"), bytes(folder / "b" / "model.safetensors"));
  EXPECT_NE(bytes(folder / "a" / TrainRun::kState), bytes(folder / "b" / TrainRun::kState));
}

// The same drafts, and the same drafter to go on from; what the other form repeats must be this target's.
TEST_F(TrainRunning, TheSpeculatorsFormIsTheSameDrafter) {
  const TempFolder folder;
  TrainOptions parts = options(folder / "z", 2);
  EXPECT_TRUE(make(parts).run(quiet_, kNever));
  parts.output = folder / "s";
  parts.form = DrafterForm::kSpeculators;
  EXPECT_TRUE(make(parts).run(quiet_, kNever));
  EXPECT_EQ(bytes(folder / "z" / TrainRun::kState), bytes(folder / "s" / TrainRun::kState));

  const Json written = read_json_file(folder / "s" / "config.json");
  const Json reference = read_json_file(testing::data_folder() / "drafters" / "speculators" / "config.json");
  for (const char* part : {"", "/transformer_layer_config", "/speculators_config", "/speculators_config/verifier"}) {
    for (const auto& [key, value] : reference.at(Json::json_pointer(part)).items()) {
      EXPECT_EQ(written.at(Json::json_pointer(part)).value(key, Json("none")).type(), value.type()) << part << key;
    }
  }
  const DflashConfig read = read_dflash_config(folder / "s");
  EXPECT_EQ(read.aux_layers, drafter_.aux_layers);
  EXPECT_EQ(read.block_size, drafter_.block_size);
  EXPECT_EQ(read.stack.layers, drafter_.stack.layers);
  EXPECT_EQ(zlab_config(with_target_vocabulary(read, model_->config())), zlab_config(drafter_));

  // The form has bf16, so that a target in fp32 is another one; and the ref device has no head of 8 bits for drafts.
  const std::unique_ptr<Ops> ref = make_device("ref", {});
  const fs::path rounded = rounded_to_bf16(checkpoint_.folder(), folder / "rounded");
  const std::unique_ptr<Model> target = Model::load(*ref, rounded, 128);
  const auto prompt = documents_.ids(0);
  const auto drafts = [&](const fs::path& path) {
    const std::unique_ptr<DflashDrafter> drafter = DflashDrafter::load(*target, path);
    testing::DirectDecoder decoder(*target, drafter.get(), 128);
    return decoder.speculate({prompt.begin(), prompt.end()}, 24, {}, 16).drafted_ids;
  };
  EXPECT_GE(drafts(folder / "z").size(), 15U);
  EXPECT_EQ(drafts(folder / "s"), drafts(folder / "z"));

  TrainRun fresh = make(options(folder / "again", 2));
  fresh.start_from(folder / "s");
  fresh.save();
  EXPECT_EQ(bytes(folder / "again" / "model.safetensors"), bytes(folder / "z" / "model.safetensors"));
  std::string other = bytes(folder / "s" / "model.safetensors");
  other[other.size() - 1] ^= 1;  // of the head
  std::ofstream(folder / "s" / "model.safetensors", std::ios::binary) << other;
  try {
    fresh.start_from(folder / "s");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("lm_head.weight is not the target's (row 95 differs)"));
  }
}

TEST_F(TrainRunning, CountsStepsWithoutNumbersAndEndsAfterTen) {
  const TempFolder folder;
  struct Counter : TrainListener {
    void on_step(const StepFigures& figures) override { skipped = figures.skipped; }
    int64_t skipped = 0;
  } counter;
  EXPECT_TRUE(
      make(options(folder / "some", 20), noisy([](int64_t step) { return step % 2 == 1; })).run(counter, kNever));
  EXPECT_EQ(counter.skipped, 10);
  TrainRun broken = make(options(folder / "all", 40), noisy([](int64_t step) { return step >= 4; }));
  try {
    broken.run(counter, kNever);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("10 steps in a row was no number; try a lower --learning-rate"));
  }
  EXPECT_EQ(broken.steps_done(), 14);
}

TEST_F(TrainRunning, RefusesToGoOnWithOtherSettings) {
  const TempFolder folder;
  EXPECT_TRUE(make(options(folder / "d", 2)).run(quiet_, kNever));
  const auto refusal = [&](const TrainOptions& changed) {
    try {
      make(changed).resume();
      return std::string("taken");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  TrainOptions changed = options(folder / "d", 2);
  EXPECT_EQ(refusal(changed), "taken");
  changed.seed = 1;
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with seed 0, and now it is 1"));
  changed = options(folder / "d", 3);
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with steps 2, and now it is 3"));
  changed = options(folder / "d", 2);
  changed.target = "another";
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with target \"\", and now it is \"another\""));
  changed = options(folder / "d", 2);
  changed.compute = DType::kBF16;
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with compute \"f32\", and now it is \"bf16\""));
  // A state of before there was a choice lacks these settings.
  std::string state = bytes(folder / "d" / TrainRun::kState);
  state.replace(state.find("compute"), 7, "another");
  state.replace(state.find("gpus"), 4, "else");
  std::ofstream(folder / "d" / TrainRun::kState, std::ios::binary) << state;
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with compute \"f32\", and now it is \"bf16\""));
  changed.compute = DType::kF32;
  EXPECT_EQ(refusal(changed), "taken");
  changed = options(folder / "d", 2);
  documents_.add({{7, 8, 9}, {0, 1, 1}, 0});
  documents_.end_file();
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with documents 30, and now it is 31"));
}

TEST_F(TrainRunning, HeldOutDocumentsAreNeverTrainedOn) {
  struct Remembering : NoisyTrainer {
    using NoisyTrainer::NoisyTrainer;
    TrainReport step(std::span<const TrainDocument> documents) override {
      for (const TrainDocument& one : documents) seen->insert({one.ids.begin(), one.ids.end()});
      return NoisyTrainer::step(documents);
    }
    std::set<std::vector<int32_t>>* seen = nullptr;
  };
  std::set<std::vector<int32_t>> seen;
  const TempFolder folder;
  TrainRun run = make(options(folder / "d", 40), [&](const DflashConfig& config, const TrainOptions& asked) {
    auto trainer = std::make_unique<Remembering>(config, asked, [](int64_t) { return false; });
    trainer->seen = &seen;
    return trainer;
  });
  for (int step = 0; step < 40; ++step) run.step();
  const std::vector<size_t> held_out = documents_.held_out();
  ASSERT_EQ(held_out.size(), 1u);
  EXPECT_EQ(seen.size(), documents_.size() - 1);
  const auto ids = documents_.ids(held_out.front());
  EXPECT_EQ(seen.count({ids.begin(), ids.end()}), 0u);
}

// Answer at 4 to 11. Its first token comes with the prompt; blocks begin at 4 (1 right, 2 tokens), 6 (0, 1), 7 (1, 2),
// 9 (0, 1), 10 (1 right: the last token, and none is left for the target).
TEST_F(TrainRunning, GoesThroughAnswersInTheStepsOfServing) {
  const TempFolder folder;
  TrainRun run = make(options(folder / "d", 1));
  EncodedDocument answer;
  for (int32_t i = 0; i < 12; ++i) answer.ids.push_back(10 + i);
  answer.supervised.assign(12, 0);
  std::fill(answer.supervised.begin() + 4, answer.supervised.end(), uint8_t{1});
  const SteppedAcceptance found = run.evaluate_in_steps({&answer, 1});
  EXPECT_EQ(found.steps, 5);
  EXPECT_EQ(found.tokens, 7);
  EXPECT_EQ(found.first_accepted, 3);
  EncodedDocument one = {{10, 11}, {0, 1}, 0};  // all of it came with the prompt
  EXPECT_EQ(run.evaluate_in_steps({&one, 1}).steps, 0);
}

TEST(PromptOfADocument, EndsBeforeTheLastTurnThatIsLearnt) {
  const auto length = [](std::vector<uint8_t> supervised) { return prompt_length(supervised); };
  EXPECT_EQ(length({0, 0, 1, 1}), 2u);
  EXPECT_EQ(length({0, 1, 0, 0, 1, 1, 0}), 4u);
  EXPECT_EQ(length({1, 1, 1, 1, 1, 1, 1, 1}), 2u);
  EXPECT_EQ(length({0, 0}), std::nullopt);
  EXPECT_EQ(length({1, 1, 1}), std::nullopt);
}

}  // namespace
}  // namespace ashlar
