// A model in a GGUF file, opened as programs open it, is its folder: the same conversation gives the same tokens and
// the same answer, with and without a drafter.

#include <gtest/gtest.h>

#include "app/inspect.h"
#include "ashlar/llm.h"
#include "gguf_tokenizer.h"
#include "golden/gguf_from_folder.h"
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
  for (const char* drafter : {"none", ""}) {  // the second is the one that lies beside the file
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
