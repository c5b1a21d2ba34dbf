// SPDX-License-Identifier: Apache-2.0
// Folders with a tokenizer.model: against the Python package `sentencepiece` on the same models, and files that are
// none.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "temp_folder.h"
#include "tokenizer_goldens.h"
#include "unit/io/outside_files.h"

namespace ashlar::test {
namespace {

using testing::expect_error;

/// A message in protocol buffers' encoding.
class Message {
 public:
  Message& varint(int number, uint64_t value) { return key(number, 0).raw_varint(value); }
  Message& number32(int number, float value) {
    key(number, 5);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Message& bytes(int number, const std::string& value) {
    key(number, 2).raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Message& key(int number, int wire) {
    return raw_varint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(wire));
  }
  Message& raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  std::string bytes_;
};

std::string piece(const std::string& text, float score, uint64_t type) {
  return Message().bytes(1, text).number32(2, score).varint(3, type).bytes();
}

/// Of BPE, as the golden values have it.
std::string model_of(const nlohmann::json& golden) {
  Message model;
  for (size_t i = 0; i < golden["pieces"].size(); ++i) {
    model.bytes(1, piece(golden["pieces"][i], golden["scores"][i], golden["types"][i]));
  }
  model.bytes(2, Message().varint(3, 2).varint(35, 1).bytes());
  model.bytes(3, Message().varint(3, golden["prefix"].get<bool>() ? 1 : 0).varint(4, 0).bytes());
  return model.bytes();
}

class SentencePieceModels : public ::testing::Test {
 protected:
  Tokenizer load(const std::string& bytes) {
    folder_.write("tokenizer.model", bytes);
    return Tokenizer::from_model(folder_.path());
  }
  void refuse(const std::string& bytes, std::vector<std::string> parts) {
    parts.emplace_back("tokenizer.model");
    expect_error([&] { load(bytes); }, parts);
  }
  static void compare(const Tokenizer& made, const nlohmann::json& golden, const std::vector<size_t>& strings) {
    const GoldenSums sums(golden["crc"]);
    ASSERT_EQ(sums.size(), strings.size());
    size_t failures = 0;
    Crc all;
    for (size_t i = 0; i < strings.size(); ++i) {
      const std::string& text = golden_strings()[strings[i]];
      const std::vector<int32_t> ids = made.encode(text, {.parse_special = false});
      all.add(ids);
      if (!sums.matches(i, ids) && ++failures <= 8) {
        ADD_FAILURE() << "string " << strings[i] << ": " << hex(text.substr(0, 60)) << " got " << shown(ids);
      }
      if (i >= golden["decoded"].size()) continue;
      EXPECT_EQ(made.decode(ids, false), golden["decoded"][i].get<std::string>()) << strings[i];
    }
    EXPECT_EQ(failures, 0U);
    EXPECT_EQ(all.value(), sums.of_all());
  }
  TempFolder folder_;
};

TEST_F(SentencePieceModels, ScoredMerges) {
  for (const char* style : {"prefix", "no_prefix"}) {
    SCOPED_TRACE(style);
    const nlohmann::json golden = read_json(data_path("sentencepiece.json"))[style];
    const auto left_out = golden["left_out"].get<std::vector<size_t>>();
    std::vector<size_t> strings;
    for (size_t i = 0; i < golden_strings().size(); ++i) {
      if (!std::binary_search(left_out.begin(), left_out.end(), i)) strings.push_back(i);
    }
    compare(load(model_of(golden)), golden, strings);
  }
}

// A file as the package writes it, with a user's symbols, and spaces at ends and in a row that it takes away.
TEST_F(SentencePieceModels, UnigramAsItIsStored) {
  const nlohmann::json golden = read_json(data_path("tokenizer_model.json"));
  std::vector<size_t> strings;
  for (size_t i = 0; i < golden_strings().size(); i += 4) {
    if (golden_strings()[i].find('\0') == std::string::npos) strings.push_back(i);
  }
  std::filesystem::copy_file(data_path("tokenizer.model"), folder_.path() / "tokenizer.model");
  compare(Tokenizer::from_model(folder_.path()), golden, strings);
}

std::string small(const std::string& trainer = Message().varint(3, 2).bytes(),
                  const std::string& normalizer = Message().varint(4, 0).bytes()) {
  Message model;
  for (const std::string& one :
       {piece("<unk>", 0, 2), piece("<s>", 0, 3), piece("</s>", 0, 3), piece("a", -1, 1), piece("\xE2\x96\x81", -2, 1),
        piece("<turn>", 0, 4), piece("\xE2\x96\x81\xE2\x96\x81", 0, 4)}) {
    model.bytes(1, one);
  }
  return model.bytes(2, trainer).bytes(3, normalizer).bytes();
}

TEST_F(SentencePieceModels, WhatTheFilesNextToItAdd) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(load(small()).encode("a", {.add_special_tokens = true}), (Ids{1, 4, 3}));
  // A user's symbols stand in a text of written spaces, where the one in front of it counts.
  EXPECT_EQ(load(small()).encode(" a<turn>a"), (Ids{6, 3, 5, 3}));
  EXPECT_EQ(load(small()).encode("a</s>a"), (Ids{4, 3, 2, 4, 3}));
  folder_.write("tokenizer_config.json",
                R"({"add_bos_token":false,"add_eos_token":true,"add_prefix_space":false,"added_tokens_decoder":{
                "7":{"content":"<|im_start|>","special":true},"5":{"content":"<turn>","special":true},"2":{"content":"</s>","special":true,"normalized":false},
                "6":{"content":"\u2581\u2581","normalized":false}}})");
  folder_.write("added_tokens.json", R"({"<tool>":8})");
  const Tokenizer chat = load(small());
  EXPECT_EQ(chat.encode("<|im_start|>a<tool>", {.add_special_tokens = true}), (Ids{7, 3, 8, 2}));
  EXPECT_EQ(chat.encode("a  a"), (Ids{3, 6, 3}));
  EXPECT_EQ(chat.encode("a<turn>"), (Ids{3, 5}));
  EXPECT_TRUE(chat.is_special(7) && chat.is_special(5) && !chat.is_special(8) && !chat.is_special(6));
  folder_.write("tokenizer_config.json", R"({"legacy":false})");
  refuse(small(), {"\"legacy\" is false"});
  folder_.write("tokenizer_config.json", R"({"add_bos_token":3})");
  refuse(small(), {"add_bos_token", "true or false"});
  folder_.write("tokenizer_config.json", R"({"added_tokens_decoder":{"x":{}}})");
  refuse(small(), {"added_tokens_decoder", "'x'"});
  folder_.write("tokenizer_config.json", "{}");
  folder_.write("added_tokens.json", R"({"<tool>":"8"})");
  refuse(small(), {"added_tokens.json", "<tool>"});
}

TEST_F(SentencePieceModels, PiecesThatAreNotUsedComeOfNoText) {
  Message model;
  for (const std::string& one : {piece("<unk>", 0, 2), piece("a", -1, 1), piece("\xE3\x80\x87", 0, 5)})
    model.bytes(1, one);
  model.bytes(2, Message().varint(3, 1).bytes()).bytes(3, Message().varint(3, 0).varint(4, 0).bytes());
  EXPECT_EQ(load(model.bytes()).encode("a\xE3\x80\x87"), (std::vector<int32_t>{1, 0}));
}

TEST_F(SentencePieceModels, FilesThatAreNoneAreRefused) {
  const std::string whole = small();
  refuse("", {"it has no pieces"});
  refuse(whole.substr(0, whole.size() - 1), {"bytes, of which"});
  refuse(std::string("{\"model\": 1}"), {"is no SentencePiece model"});
  refuse(whole + '\x0A', {"ends within a number"});
  refuse(whole + std::string(10, '\xFF') + '\x01', {"64 bits"});
  refuse(whole + Message().varint(0, 1).bytes(), {"number 0"});
  refuse(whole + Message().varint(1, 1).bytes(), {"wire type 0; expected 2"});
  refuse(whole + Message().bytes(1, piece("a", -1, 1)).bytes(), {"'a'", "the piece 3"});
  refuse(whole + Message().bytes(1, piece("\xFF", -1, 1)).bytes(), {"the piece 7", "UTF-8"});
  refuse(whole + Message().bytes(1, piece("", -1, 1)).bytes(), {"the piece 7", "no text"});
  refuse(whole + Message().bytes(1, piece("b", -1, 7)).bytes(), {"the piece 7", "type 7"});
  refuse(whole + Message().bytes(1, piece("b", std::numeric_limits<float>::quiet_NaN(), 1)).bytes(), {"finite"});
  refuse(small(Message().varint(3, 3).bytes()), {"model_type is 3", "1 (unigram) or 2 (BPE)"});
  refuse(small(Message().varint(3, 2).varint(24, 1).bytes()), {"spaces after words"});
  refuse(small(Message().varint(3, 2).bytes(), Message().varint(5, 0).bytes()), {"leaves spaces"});
  refuse(whole + Message().bytes(5, Message().bytes(2, "x").bytes()).bytes(), {"when it decodes"});
  folder_.write("tokenizer_config.json", R"({"add_eos_token":true})");
  refuse(small(Message().varint(3, 2).varint(42, ~uint64_t{0}).bytes()), {"add_eos_token"});
}

TEST_F(SentencePieceModels, TheJsonComesFirstAndOneMustBeThere) {
  expect_error([&] { Tokenizer::from_model(folder_.path()); }, {"neither tokenizer.json nor tokenizer.model"});
  folder_.write("tokenizer.json", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  EXPECT_EQ(load(small()).encode("a"), std::vector<int32_t>{0});
}

}  // namespace
}  // namespace ashlar::test
