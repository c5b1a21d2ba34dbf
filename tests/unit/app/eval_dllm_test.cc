// SPDX-License-Identifier: Apache-2.0
// `ashlar eval dllm` on models that attend to the whole sequence, which some algorithms cannot work with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "app/commands/commands.h"
#include "base/error.h"
#include "decode/block/algorithms.h"
#include "golden/seeded_checkpoint.h"
#include "io/json.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

class EvalDllmOfWholeSequences : public ::testing::TestWithParam<const char*> {
 protected:
  EvalDllmOfWholeSequences() : checkpoint_(fs::path(ASHLAR_TEST_DATA) / "blocks" / GetParam()) {
    fs::copy_file(fs::path(ASHLAR_SOURCE_DIR) / "models" / "pebble-11m-sdar" / "tokenizer.json",
                  checkpoint_.folder() / "tokenizer.json");
  }

  // Of a prompt of three tokens, the last of that id; the vocabulary has 128.
  void eval(const std::string& flags, int32_t last_id) {
    const fs::path prompts = files_.write("p.jsonl", "{\"prompt_ids\": [5, 6, " + std::to_string(last_id) + "]}\n");
    CLI::App app("eval");
    add_eval_dllm_command(app);
    app.parse("dllm " + checkpoint_.folder().string() + " --prompts " + prompts.string() + " -n 4 --threads 1 --json " +
              (files_ / "o.json").string() + " " + flags);
  }

  const testing::SeededCheckpoint checkpoint_;
  const TempFolder files_;
};

TEST_P(EvalDllmOfWholeSequences, MeasuresAllThatTheModelCanDo) {
  eval("", 7);
  std::set<std::string> found, expected;
  const Json written = read_json_file(files_ / "o.json");
  for (const Json& cell : written["cells"]) found.insert(cell["algorithm"].get<std::string>());
  for (const AlgorithmDescription& algorithm : algorithm_descriptions()) expected.insert(algorithm.name);
  expected.erase("s2d2");
  EXPECT_EQ(found, expected);
}

// Measuring would stumble over the prompt, so the algorithm is refused before.
TEST_P(EvalDllmOfWholeSequences, RefusesANamedAlgorithmBeforeAnythingIsMeasured) {
  try {
    eval("--algorithms low_confidence,s2d2", 500);
    FAIL() << "a model of whole sequences verifies nothing";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("s2d2 needs a model that attends block by block"));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EvalDllmOfWholeSequences, ::testing::Values("llada", "dream"));

}  // namespace
}  // namespace ashlar
