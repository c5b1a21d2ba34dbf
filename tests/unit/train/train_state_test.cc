// SPDX-License-Identifier: Apache-2.0
#include "train/run/train_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "io/mapped_file.h"
#include "temp_folder.h"
#include "train/log/train_log.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

// Three arrays of a tensor [2, 3], with numbers that a text could not carry.
struct State {
  std::vector<float> values, first, second;
  explicit State(uint32_t seed) : values(6), first(6), second(6) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto* list : {&values, &first, &second}) {
      for (float& value : *list) value = normal(random);
    }
    values[0] = std::numeric_limits<float>::denorm_min();
    first[0] = -0.0F;
  }
  std::vector<TrainParameter> tensors(const std::string& name = "fc.weight", std::vector<int64_t> shape = {2, 3}) {
    return {{name, std::move(shape), values, {}, first, second}};
  }
};

TEST(TrainState, ComesBackToTheBit) {
  const TempFolder folder;
  State saved(1), loaded(2);
  TrainProgress progress;
  progress.step = 41;
  progress.skipped = 2;
  progress.settings = {
      {"seed", 18446744073709551615u}, {"learning_rate", 6e-4}, {"compute", "bf16"}, {"loss", "lk"}, {"gpus", 2},
      {"selector_weight", 0.5},        {"schedule", "linear"}};
  save_train_state(folder / "s", saved.tensors(), progress);
  EXPECT_EQ(read_train_progress(folder / "s").step, 41);
  const TrainProgress found = load_train_state(folder / "s", loaded.tensors());
  EXPECT_EQ(found.skipped, 2);
  EXPECT_EQ(found.settings, progress.settings);
  EXPECT_EQ(std::memcmp(saved.values.data(), loaded.values.data(), 24), 0);
  EXPECT_EQ(std::memcmp(saved.first.data(), loaded.first.data(), 24), 0);
  EXPECT_EQ(std::memcmp(saved.second.data(), loaded.second.data(), 24), 0);
  // Damage, in the numbers and in what the file says of itself.
  const std::string whole = read_text_file(folder / "s", 1 << 16);
  for (const size_t at : {whole.size() - 30, whole.find(R"(step\":41)") + 8}) {
    std::string damaged = whole;
    damaged[at] = damaged[at] == '1' ? '2' : static_cast<char>(damaged[at] ^ 1);
    std::ofstream(folder / "damaged", std::ios::binary) << damaged;
    try {
      load_train_state(folder / "damaged", loaded.tensors());
      ADD_FAILURE() << at;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("is damaged: what it holds has the hash ")) << at;
    }
  }
  // States of before there was a choice.
  progress.settings.erase("compute");
  progress.settings.erase("loss");
  save_train_state(folder / "s", saved.tensors(), progress);
  EXPECT_EQ(read_train_progress(folder / "s").settings["compute"], "f32");
  EXPECT_EQ(read_train_progress(folder / "s").settings["loss"], "ce");
}

TEST(TrainState, SaysWhatDoesNotFit) {
  const TempFolder folder;
  State state(1);
  save_train_state(folder / "s", state.tensors(), {});
  const auto message = [&](const std::filesystem::path& path, const std::vector<TrainParameter>& tensors) {
    try {
      load_train_state(path, tensors);
      return std::string("taken");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(message(folder / "s", state.tensors("other")), HasSubstr("has no tensor other"));
  EXPECT_THAT(message(folder / "s", state.tensors("fc.weight", {3, 2})),
              HasSubstr("fc.weight is F32 [2, 3]; expected [3, 2]"));
  write_safetensors(folder / "weights", values_of(state.tensors()));
  EXPECT_THAT(message(folder / "weights", state.tensors()), HasSubstr("is no state of a training run"));
  // A file that a broken disk cut short is refused, not half read.
  const std::string bytes = read_text_file(folder / "s", 1 << 20);
  EXPECT_THROW(load_train_state(folder.write("cut", bytes.substr(0, bytes.size() - 1)), state.tensors()), Error);
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::istringstream stream(read_text_file(path, 1 << 20));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Records as the package tensorboard 2.21 writes them.
TEST(EventFile, HasTheBytesOfTensorBoard) {
  const auto hex = [](std::string_view bytes) {
    std::string out;
    for (const char byte : bytes) {
      for (const int shift : {4, 0}) out += "0123456789abcdef"[(static_cast<unsigned char>(byte) >> shift) & 15];
    }
    return out;
  };
  const std::vector<Scalar> scalars = {{"loss", 2.5F}, {"accuracy/draft 1", 0.625F}};
  EXPECT_EQ(hex(record_of(event_bytes(1700000000.25, 0, {}))),
            "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");
  EXPECT_EQ(
      hex(record_of(event_bytes(1700000000.25, 300, scalars))),
      "34000000000000005e33175c0900001040fc54d94110ac022a260a0b0a046c6f737315000020400a170a1061636375726163792f6472"
      "616674203115"
      "0000203f92d1bddd");
}

TEST(TrainLog, GoesOnAfterTheLinesOfTheStepsThatCount) {
  const TempFolder folder;
  const auto path = folder / "log";
  {
    TrainLog log(path, 0);
    for (int step = 1; step <= 3; ++step) log.write({{"step", step}});
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 4, \"lo";  // a kill
  {
    TrainLog log(path, 2);
    log.write({{"step", 3}, {"again", true}});
  }
  EXPECT_EQ(lines_of(path), (std::vector<std::string>{"{\"step\":1}", "{\"step\":2}", "{\"step\":3,\"again\":true}"}));
  TrainLog(path, 0);
  EXPECT_EQ(lines_of(path).size(), 0u);
}

// TensorBoard's file has the numbers of the lines that are kept, and of no others; of kept steps the times that they
// took.
TEST(TrainLog, EventsAreThoseOfTheLines) {
  const TempFolder folder;
  const auto line_of = [](int step) {
    return Json{{"step", step},
                {"loss", step == 2 ? Json() : Json(step * 0.5)},
                {"tokens", 12},
                {"seconds", 4},
                {"position_accuracy", {0.5, step * 0.125}}};
  };
  {
    TrainLog log(folder / "log", 0, [] { return 50.0; });
    for (int step = 1; step <= 5; ++step) log.write(line_of(step));
  }
  {
    TrainLog log(folder / "log", 3, [] { return 1000.0; });
    log.write(line_of(4));
  }
  std::string expected = record_of(event_bytes(988, 0, {}));
  for (int step = 1; step <= 4; ++step) {
    std::vector<Scalar> scalars;
    if (step != 2) scalars.push_back({"loss", static_cast<float>(step) * 0.5F});
    scalars.push_back({"tokens_per_second", 3});
    scalars.push_back({"position_accuracy/draft 01", 0.5F});
    scalars.push_back({"position_accuracy/draft 02", static_cast<float>(step) * 0.125F});
    expected += record_of(event_bytes(step == 4 ? 1000 : 988 + 4 * step, step, scalars));
  }
  EXPECT_EQ(read_text_file(folder / TrainLog::kEvents, 1 << 20), expected);
}

TEST(TrainLog, SaysWhichFileCannotBeWrittenAndWhy) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / TrainLog::kEvents);
  try {
    TrainLog(folder / "log", 0);
    FAIL() << "a folder was written as a file";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(std::string(TrainLog::kEvents) + ": cannot be written: Is a directory"));
  }
}

}  // namespace
}  // namespace ashlar
