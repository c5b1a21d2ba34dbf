// SPDX-License-Identifier: Apache-2.0
// Tokenizers out of GGUF metadata against the Python package `tokenizers` on the files that they were made of.

#include "text/tokenizer/gguf/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "gguf_tokenizer.h"
#include "temp_folder.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/model_tokens.h"
#include "tokenizer_goldens.h"
#include "unit/io/outside_files.h"

namespace ashlar::test {
namespace {

using testing::expect_error;
using testing::GgufWriter;

struct Made {
  const char* name;  // of tests/data/tokenizer
  const char* pre;
};

void PrintTo(const Made& made, std::ostream* out) { *out << made.name; }

class GgufTokenizer : public ::testing::TestWithParam<Made> {
 protected:
  GgufTokenizer() { write_gguf_tokenizer(read_json(tokenizer_path(GetParam().name)), GetParam().pre, file_); }
  Tokenizer load() const { return Tokenizer::from_model(folder_.write("m.gguf", file_.bytes())); }
  GgufWriter file_;
  TempFolder folder_;
};

TEST_P(GgufTokenizer, EveryString) {
  if (std::string(GetParam().name) == "llama3") file_.number("tokenizer.ggml.bos_token_id", 0U);
  const Tokenizer made = load();
  const auto& golden = goldens()["tokenizers"][GetParam().name];
  const GoldenSums sums(golden["crc"]);
  ASSERT_EQ(sums.size(), golden_strings().size());
  Crc framed;
  for (size_t i = 0; i < golden_strings().size(); ++i) {
    const std::string& text = golden_strings()[i];
    ASSERT_TRUE(sums.matches(i, made.encode(text))) << "string " << i << ": " << hex(text.substr(0, 60));
    framed.add(made.encode(text, {.add_special_tokens = true}));
  }
  EXPECT_EQ(framed.value(), GoldenSums(golden["crc_framed"]).of_all());
}

TEST_P(GgufTokenizer, SpecialTokensAsTextAndDecoding) {
  file_.boolean("tokenizer.ggml.add_bos_token", false);
  const Tokenizer made = load();
  const auto& golden = goldens()["tokenizers"][GetParam().name];
  const GoldenSums sums(golden["crc_special_as_text"]);
  const auto chosen = goldens()["strings_with_special"].get<std::vector<size_t>>();
  for (size_t i = 0; i < chosen.size(); ++i) {
    ASSERT_TRUE(sums.matches(i, made.encode(golden_strings()[chosen[i]], {.parse_special = false}))) << chosen[i];
  }
  for (const auto& entry : golden["decode"]) {
    const auto ids = entry[0].get<std::vector<int32_t>>();
    EXPECT_EQ(made.decode(ids, false), entry[1].get<std::string>());
    EXPECT_EQ(made.decode(ids, true), entry.back().get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, GgufTokenizer,
                         ::testing::Values(Made{"gpt2", "gpt-2"}, Made{"llama3", "llama-bpe"}, Made{"qwen", "qwen2"},
                                           Made{"pebble", "qwen2"}),
                         [](const auto& info) { return std::string(info.param.name); });

class GgufText : public ::testing::Test {
 protected:
  /// A vocabulary of "a", "b", "ab" and three tokens with a role.
  static GgufWriter small() {
    GgufWriter file;
    file.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2")
        .texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>", "</s>", "<tool>", "[PAD6]"})
        .integers("tokenizer.ggml.token_type", {1, 1, 1, 3, 3, 4, 5})
        .texts("tokenizer.ggml.merges", {"a b"})
        .number("tokenizer.ggml.bos_token_id", 3U)
        .number("tokenizer.ggml.eos_token_id", 4U);
    return file;
  }
  static GgufWriter without(const std::string& key) {
    GgufWriter file = small();
    std::erase_if(file.keys, [&](const std::string& part) { return part.find(key) == 8; });
    return file;
  }
  std::filesystem::path write(const GgufWriter& file) const { return folder_.write("m.gguf", file.bytes()); }
  Tokenizer load(const GgufWriter& file) const { return Tokenizer::from_model(write(file)); }
  void refuse(const GgufWriter& file, std::vector<std::string> parts) const {
    parts.emplace_back("m.gguf");
    parts.emplace_back("[tokenizer]");
    expect_error([&] { load(file); }, parts);
  }
  TempFolder folder_;
};

TEST_F(GgufText, SmollmCutsDigitsApart) {
  nlohmann::json json = read_json(tokenizer_path("gpt2"));
  GgufWriter file;
  write_gguf_tokenizer(json, "smollm", file);
  const Tokenizer made = load(file);
  json["pre_tokenizer"] = nlohmann::json::parse(R"({"type":"Sequence","pretokenizers":[
    {"type":"Digits","individual_digits":true},
    {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]})");
  const Tokenizer want = Tokenizer::from_json(json.dump(), "smollm");
  for (const std::string& text : golden_strings()) ASSERT_EQ(made.encode(text), want.encode(text)) << hex(text);
  const Tokenizer gpt2 = Tokenizer::from_file(tokenizer_path("gpt2"));
  EXPECT_NE(made.encode("in 1989 and 2024"), gpt2.encode("in 1989 and 2024"));
}

TEST_F(GgufText, KnowsTokensByTheirTypes) {
  const Tokenizer made = load(small());
  EXPECT_EQ(made.encode("ab<tool><s>"), (std::vector<int32_t>{2, 5, 3}));
  EXPECT_TRUE(made.is_special(3));
  EXPECT_TRUE(made.is_added(5));
  EXPECT_FALSE(made.is_special(5));
  EXPECT_EQ(made.token_id("[PAD6]"), std::nullopt);
  EXPECT_EQ(made.encode("ab", {.add_special_tokens = true}), (std::vector<int32_t>{2}));
  GgufWriter ends = without("tokenizer.ggml.tokens");
  ends.texts("tokenizer.ggml.tokens", {"a", "<|im_end|>", "ab", "<|endoftext|>", "</s>", "<tool>", "[PAD6]"});
  std::erase_if(ends.keys, [](const std::string& part) { return part.find("tokenizer.ggml.merges") == 8; });
  ends.texts("tokenizer.ggml.merges", {});
  // A special token of that spelling ends an answer, another one does not.
  EXPECT_EQ(stop_ids_of(write(ends), load(ends), {4}, 7), (std::vector<int32_t>{4, 3}));
  GgufWriter framed = small();
  framed.boolean("tokenizer.ggml.add_bos_token", true).boolean("tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(load(framed).encode("ab", {.add_special_tokens = true}), (std::vector<int32_t>{3, 2, 4}));
}

TEST_F(GgufText, HasTemplatesAndRoles) {
  EXPECT_FALSE(ChatTemplate::from_model(write(small())));
  GgufWriter file = small();
  file.text("tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}")
      .texts("tokenizer.chat_templates", {"tool_use"})
      .text("tokenizer.chat_template.tool_use", "with tools");
  const auto form = ChatTemplate::from_model(write(file));
  ASSERT_TRUE(form);
  const auto messages = nlohmann::ordered_json::array({{{"role", "user"}, {"content", "hi"}}});
  EXPECT_EQ(form->render(messages, nullptr, true).bytes, "<s>hi</s>");
  EXPECT_EQ(form->render(messages, nlohmann::ordered_json::array(), true).bytes, "with tools");
  EXPECT_EQ(stop_ids_of(folder_ / "m.gguf", load(file), {1}, 7), (std::vector<int32_t>{1, 4}));
  GgufWriter broken = small();
  broken.text("tokenizer.chat_template", "{% if %}");
  expect_error([&] { ChatTemplate::from_model(write(broken)); }, {"m.gguf", "[template]"});
  broken.keys.back() = std::string();
  broken.keys.pop_back();
  broken.text("tokenizer.chat_template", "\xFF");
  expect_error([&] { ChatTemplate::from_model(write(broken)); }, {"m.gguf", "tokenizer.chat_template", "UTF-8"});
}

TEST_F(GgufText, RefusesWhatItDoesNotKnow) {
  const auto with = [](GgufWriter file, const char* key, const std::string& value) {
    file.text(key, value);
    return file;
  };
  refuse(with(without("tokenizer.ggml.model"), "tokenizer.ggml.model", "t5"),
         {"tokenizer.ggml.model", "gpt2 (byte-level BPE), llama (SentencePiece BPE)", "t5"});
  refuse(without("tokenizer.ggml.model"), {"tokenizer.ggml.model"});
  refuse(with(without("tokenizer.ggml.pre"), "tokenizer.ggml.pre", "viking"),
         {"tokenizer.ggml.pre", "one of gpt-2, olmo", "llama-bpe", "qwen2", "viking"});
  refuse(without("tokenizer.ggml.pre"), {"tokenizer.ggml.pre", "an old file", "found nothing"});
  refuse(without("tokenizer.ggml.tokens"), {"tokenizer.ggml.tokens", "found nothing"});
  refuse(without("tokenizer.ggml.merges"), {"tokenizer.ggml.merges", "found nothing"});
  GgufWriter prefix = small();
  prefix.boolean("tokenizer.ggml.add_space_prefix", true);
  refuse(prefix, {"add_space_prefix", "false where there are merges"});
}

TEST_F(GgufText, RefusesWhatDoesNotFit) {
  const auto tokens = [](const std::vector<std::string>& texts) {
    GgufWriter file = without("tokenizer.ggml.tokens");
    file.texts("tokenizer.ggml.tokens", texts);
    return file;
  };
  const auto types = [](const std::vector<int32_t>& values) {
    GgufWriter file = without("tokenizer.ggml.token_type");
    file.integers("tokenizer.ggml.token_type", values);
    return file;
  };
  refuse(tokens({}), {"tokenizer.ggml.tokens", "from 1 to 1048576", "found 0"});
  refuse(tokens({"a", "a", "ab", "<s>", "</s>", "<tool>", "x"}), {"'a' is there twice"});
  refuse(tokens({"a", "b", "ab", "\xFF", "</s>", "<tool>", "x"}), {"tokenizer.ggml.tokens", "not valid UTF-8"});
  refuse(types({1, 1}), {"token_type", "one for each of 7 tokens", "found 2"});
  refuse(types({1, 1, 1, 3, 3, 4, 9}), {"token_type", "from 1 to 6", "found 9"});
  GgufWriter merges = without("tokenizer.ggml.merges");
  merges.texts("tokenizer.ggml.merges", {"a c"});
  refuse(merges, {"merges", "needs the token 'c'"});
  GgufWriter bos = without("tokenizer.ggml.bos_token_id");
  bos.boolean("tokenizer.ggml.add_bos_token", true);
  refuse(bos, {"bos_token_id", "add_bos_token asks for"});
  bos.number("tokenizer.ggml.bos_token_id", 7U);
  refuse(bos, {"bos_token_id", "from 0 to 6"});
}

}  // namespace
}  // namespace ashlar::test
