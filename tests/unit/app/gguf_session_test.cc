// SPDX-License-Identifier: Apache-2.0
// A model in a GGUF file, opened as programs open it, is its folder: the same conversation gives the same tokens and
// the same answer, with and without a drafter.

#include <gtest/gtest.h>

#include "app/inspect.h"
#include "ashlar/llm.h"
#include "gguf_tokenizer.h"
#include "golden/gguf_from_drafter.h"
#include "temp_folder.h"

namespace ashlar::testing {
namespace {

class GgufSession : public ::testing::Test {
 protected:
  static std::filesystem::path pebble() { return models_folder() / "pebble-11m"; }

  GgufSession() {
    GgufWriter file = gguf_from_folder(pebble());
    write_gguf_tokenizer(nlohmann::json(read_json_file(pebble() / "tokenizer.json")), "qwen2", file);
    const Json config = read_json_file(pebble() / "tokenizer_config.json");
    file.text("tokenizer.chat_template", config["chat_template"].get<std::string>());
    path_ = folder_.write("pebble.gguf", file.bytes());
    std::filesystem::create_symlink(models_folder() / "pebble-11m-dflash", folder_ / "pebble-dflash");
  }

  static LlmOptions options_for(const std::filesystem::path& model, const std::string& drafter) {
    LlmOptions options;
    options.device = "cpu";
    options.model = model.string();
    options.drafter = drafter;
    options.max_context = 256;
    return options;
  }

  TempFolder folder_;
  std::filesystem::path path_;
};

TEST_F(GgufSession, AnswersAsTheFolderDoes) {
  const auto question = chat("Solve for x: 8x + 5 = 3x + 45");
  const Llm folder(options_for(pebble(), "none"));
  const std::vector<LlmAnswer> want = folder.generate({question, "Once upon a time"}, {.max_tokens = 64});
  for (const char* drafter : {"none", ""}) {  // the second is the one that lies next to the file
    const Llm llm(options_for(path_, drafter));
    EXPECT_EQ(llm.describe().find(" with ") != std::string::npos, drafter[0] == '\0') << llm.describe();
    EXPECT_EQ(llm.encode(question), folder.encode(question));
    EXPECT_EQ(llm.stop_ids(), folder.stop_ids());
    const std::vector<LlmAnswer> got = llm.generate({question, "Once upon a time"}, {.max_tokens = 64});
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].tokens, want[i].tokens) << drafter;
      EXPECT_EQ(got[i].text, want[i].text) << drafter;
      EXPECT_EQ(got[i].finish, want[i].finish) << drafter;
    }
  }
  EXPECT_TRUE(Llm(options_for(path_, "none")).describe().starts_with("pebble, plain decoding"));
}

// The drafter in a file of its own next to the model, in bf16 as the folder is and in Q8_0: the same tokens, and of
// equal numbers the same drafts and acceptance.
TEST_F(GgufSession, DraftsWithAFileAsWithTheFolder) {
  const auto drafter = models_folder() / "pebble-11m-dflash";
  const auto question = chat("Count from 1 to 30.");
  const auto options = [&](const std::string& named) {
    LlmOptions chains = options_for(path_, named);  // drafts that depend on nothing but numbers: no times, no trees
    chains.width = 8;
    chains.branches = 0;
    chains.ngram_drafts = "never";
    return chains;
  };
  const std::vector<LlmAnswer> want =
      Llm(options(drafter.string())).generate({question, "Once upon a time"}, {.max_tokens = 64});
  for (const bool quantised : {false, true}) {
    std::filesystem::remove(folder_ / "pebble-dflash");
    const auto file = folder_.write("pebble-dflash.gguf", gguf_from_drafter(drafter, quantised).bytes());
    for (const std::string& named : {std::string(), file.string()}) {
      const Llm llm(options(named));
      EXPECT_NE(llm.describe().find(" with pebble-dflash"), std::string::npos) << llm.describe();
      const std::vector<LlmAnswer> got = llm.generate({question, "Once upon a time"}, {.max_tokens = 64});
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(got[i].tokens, want[i].tokens);
        EXPECT_GT(got[i].figures.accepted, 0);
        if (!quantised) {
          EXPECT_EQ(got[i].figures.accepted, want[i].figures.accepted);
        }
      }
    }
  }
  const auto ops = make_device("cpu", {});
  const Json report = inspect_model(*ops, path_, folder_ / "pebble-dflash.gguf", {}, 1);
  EXPECT_EQ(report["drafter"]["fits"], true);
  EXPECT_EQ(report["drafter"]["target_layer_ids"], (std::vector<int32_t>{1, 3, 5, 7, 9}));
}

TEST_F(GgufSession, IsInspectedAsTheFolderIs) {
  const auto ops = make_device("cpu", {});
  const Json want = inspect_model(*ops, pebble(), std::nullopt, {}, 1);
  const Json got = inspect_model(*ops, path_, std::nullopt, {}, 1);
  for (const char* key : {"family", "layers", "hidden", "heads", "kv_heads", "context", "vocabulary", "tied_head",
                          "tokenizer", "chat_template"}) {
    EXPECT_EQ(got[key], want[key]) << key;
  }
  EXPECT_EQ(got["weights"]["parameters"], want["weights"]["parameters"]);
  EXPECT_EQ(got["weights"]["files"], 1);
  EXPECT_EQ(got["name"], "pebble");
  EXPECT_NE(report_text(got).find("file            " + path_.string()), std::string::npos);
}

}  // namespace
}  // namespace ashlar::testing
