// SPDX-License-Identifier: Apache-2.0
#include "app/train/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "io/durable_folder.h"
#include "io/weights/weights_mark.h"
#include "measure/completion.h"
#include "temp_folder.h"
#include "train/data/example.h"
#include "train/data/traffic.h"
#include "train/export/drafter_folder.h"
#include "train/run/block_drafter.h"
#include "train/run/drafter_training.h"
#include "train/run/train_run.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kModels = fs::path(ASHLAR_SOURCE_DIR) / "models";
constexpr const char* kWeights = "model.safetensors";
constexpr int32_t kPrompts = 30;

std::string bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Calibration : public ::testing::Test {
 protected:
  static SessionOptions session_options(const std::string& drafter) {
    SessionOptions options;
    options.device = "cpu";
    options.model = (kModels / "pebble-11m").string();
    options.drafter = drafter;
    options.max_context = 256;
    options.device_options.threads = 1;
    options.quiet = true;
    return options;
  }

  /// What a server would keep of `prompts` questions: a few words that the model goes on with. Returns its lines.
  std::vector<Json> keep_traffic(int32_t prompts, int32_t tokens) {
    Session session(session_options("none"));
    std::vector<Request> requests(static_cast<size_t>(prompts));
    for (int32_t i = 0; i < prompts; ++i) {
      requests[static_cast<size_t>(i)].prompt = session.encode_raw("Row " + std::to_string(i) + ": 1, 2, 3, 4,");
      requests[static_cast<size_t>(i)].max_tokens = tokens;
    }
    const std::vector<Request> asked = requests;
    const std::vector<Completion> answers = complete(session.start(), std::move(requests), 16);
    std::vector<Json> lines;
    for (size_t i = 0; i < answers.size(); ++i) {
      lines.push_back(example_of(asked[i].prompt, answers[i].tokens));
      lines.back()["model"] = weights_mark(session.choice().model);
    }
    write_traffic(lines);
    return lines;
  }
  void write_traffic(const std::vector<Json>& lines) const {
    fs::create_directories(traffic_);
    std::ofstream file(traffic_ / traffic_file_name(1));
    for (const Json& line : lines) file << line.dump() << "\n";
    file << "{\"ids\": [1, 2";  // a kill left this
  }

  /// Those of the lines that are held out.
  static std::vector<size_t> held_out(const std::vector<Json>& lines, uint64_t seed) {
    DocumentSet documents(256);
    for (const Json& line : lines) {
      documents.add({line["ids"].get<std::vector<int32_t>>(), line["mask"].get<std::vector<uint8_t>>(), 0});
    }
    return chosen_prompts(documents, seed, 8);
  }

  /// A drafter with random weights.
  std::string new_drafter() {
    Session session(session_options("none"));
    const TrainedDrafter drafter = block_drafter(design_drafter(session.config(), {}, 3));
    DocumentSet documents(8);
    documents.add({{1, 2, 3}, {0, 1, 1}, 0});
    documents.end_file();
    TrainOptions options;
    options.output = folder_ / "random";
    options.steps = 1;
    options.max_length = 8;
    TrainRun(session.model(), documents, drafter, options, drafter_training(session.model(), "cpu", {})).save();
    return options.output.string();
  }

  std::optional<DrafterComparison> run(const std::string& drafter, CalibrationOptions options) {
    options.traffic = traffic_;
    options.output = output_;
    Session session(with_first_drafter(session_options(drafter), options));
    return calibrate(session, options);
  }
  std::string error(const std::string& drafter, const CalibrationOptions& options = {}) {
    try {
      run(drafter, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TempFolder folder_;
  const fs::path traffic_ = folder_ / "traffic", output_ = folder_ / "out";
};

// From weights that know nothing, the traffic is worth its steps; a drafter that knows it is only spoilt by a rate
// that is far too high, and stays. Answers of held-out prompts are worth nothing: with others there is the same
// drafter.
TEST_F(Calibration, ReplacesADrafterOnlyByABetterOne) {
  std::vector<Json> lines = keep_traffic(kPrompts, 8);
  CalibrationOptions options;
  while (held_out(lines, options.seed).size() < 9) ++options.seed;  // of few, by chance as many
  options.answer_tokens = 24;
  options.learning_rate = 3e-3;
  options.epochs = 10;
  options.minutes = 1e4;  // as many steps, however busy the machine is
  const fs::path random = new_drafter();
  fs::copy(random, output_);
  fs::remove(output_ / TrainRun::kState);
  const std::optional<DrafterComparison> won = run("", options);
  ASSERT_TRUE(won);
  EXPECT_GE(won->gain().pairs, 8U);
  EXPECT_LT(won->before.acceptance_length_per_step().value, 1.05);
  EXPECT_GT(won->gain().value, 0.05);
  EXPECT_TRUE(won->won());
  const std::string weights = bytes(output_ / kWeights);
  ASSERT_FALSE(weights.empty());
  EXPECT_FALSE(fs::exists(output_ / TrainRun::kState));
  EXPECT_TRUE(bytes(DurableFolder::previous(output_) / kWeights) == bytes(random / kWeights));
  EXPECT_THAT(comparison_text(*won, "MODEL", "random", options), HasSubstr("ashlar serve MODEL --drafter"));
  EXPECT_EQ(comparison_json(*won, options).at("gain"), won->gain().value);

  options.learning_rate = 0.5;
  options.epochs = 1;
  const std::optional<DrafterComparison> lost = run("", options);  // from the one that has just won
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->before.acceptance_length_per_step().value, won->after.acceptance_length_per_step().value);
  EXPECT_LT(lost->gain().value, 0);
  EXPECT_FALSE(lost->won());
  EXPECT_TRUE(bytes(output_ / kWeights) == weights);
  EXPECT_TRUE(bytes(DurableFolder::previous(output_) / kWeights) == bytes(random / kWeights));
  EXPECT_THAT(error((kModels / "pebble-11m-dflash").string()), HasSubstr("out: holds a drafter already"));

  for (const size_t line : held_out(lines, options.seed)) {
    Json& ids = lines[line]["ids"];
    for (size_t i = ids.size() - 7; i < ids.size(); ++i) ids[i] = 300 + static_cast<int32_t>(line + i);
  }
  write_traffic(lines);
  options.learning_rate = 3e-3;
  options.epochs = 10;
  fs::remove_all(output_);
  ASSERT_TRUE(run(random.string(), options)->won());
  EXPECT_TRUE(bytes(output_ / kWeights) == weights);
}

TEST_F(Calibration, ComparesNothingWhereNothingIsDrafted) {
  const std::vector<Json> lines = keep_traffic(kPrompts, 4);
  CalibrationOptions options;
  while (held_out(lines, options.seed).size() < 8) ++options.seed;
  options.answer_tokens = 1;
  EXPECT_THAT(error((kModels / "pebble-11m-dflash").string(), options), HasSubstr(" 0 have an answer of more than"));
  EXPECT_FALSE(fs::exists(output_));
}

TEST_F(Calibration, LeavesNothingAfterASignal) {
  const std::vector<Json> lines = keep_traffic(kPrompts, 4);
  CalibrationOptions options;
  while (held_out(lines, options.seed).size() < 8) ++options.seed;
  const std::jthread other([&](const std::stop_token& ended) {
    while (!fs::exists(folder_ / ".out.ashlar-new") && !ended.stop_requested()) usleep(1'000);
    if (!ended.stop_requested()) kill(getpid(), SIGTERM);
  });
  EXPECT_FALSE(run((kModels / "pebble-11m-dflash").string(), options));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);  // the traffic
}

TEST_F(Calibration, SaysWhatIsNotAsItMustBe) {
  const std::string drafter = (kModels / "pebble-11m-dflash").string();
  EXPECT_THAT(error(drafter), HasSubstr("traffic: is no folder"));
  fs::create_directories(traffic_);
  EXPECT_THAT(error(drafter), HasSubstr("traffic: holds no answer; expected a folder that `ashlar serve --learn`"));
  keep_traffic(20, 4);
  EXPECT_THAT(error(drafter), HasSubstr("too little traffic: 20 answers"));
  EXPECT_THAT(error("none"), HasSubstr("is served without a drafter"));
  const fs::path file = traffic_ / traffic_file_name(1);
  std::string other = bytes(file);
  other.replace(other.find("\"model\":\"") + 9, 4, "xxxx");
  std::ofstream(file) << other;
  EXPECT_THAT(error(drafter), HasSubstr("was answered by other weights"));
  EXPECT_THAT(error(folder_.write("x.gguf", "GGUF").string()), HasSubstr("x.gguf: is a file; expected a folder"));
  folder_.write("out", "GGUF");
  EXPECT_THAT(error(drafter), HasSubstr("out: is a file; expected a folder"));
  fs::remove(output_);
  fs::copy(drafter, output_);
  std::ofstream(output_ / TrainRun::kState) << "hours";
  EXPECT_THAT(error(""), HasSubstr("holds train-state.safetensors of `ashlar train`"));
  fs::remove_all(output_);
  fs::create_directories(output_);
  std::ofstream(output_ / "notes.txt") << "mine";
  EXPECT_THAT(error(drafter), HasSubstr("out: holds files that are no drafter"));
}

}  // namespace
}  // namespace ashlar
