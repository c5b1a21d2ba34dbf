// SPDX-License-Identifier: Apache-2.0
#include "io/json.h"
#include "measure/synth/synth.h"

namespace ashlar {
namespace {

constexpr const char* kSpecial[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"};

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// Which character stands for a byte in GPT-2's vocabularies: itself where it is printed, else one from U+0100 on.
bool is_printed(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

}  // namespace

std::string byte_tokenizer() {
  Json added = Json::array(), vocab = Json::object();
  for (const char* token : kSpecial) {
    added.push_back({{"id", added.size()},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    vocab[token] = added.size() - 1;
  }
  uint32_t others = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(token, is_printed(byte) ? byte : others++);
    vocab[token] = added.size() + byte;
  }
  const Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", bytes},
                          {"post_processor", nullptr},
                          {"decoder", bytes},
                          {"model",
                           {{"type", "BPE"},
                            {"dropout", nullptr},
                            {"unk_token", nullptr},
                            {"continuing_subword_prefix", nullptr},
                            {"end_of_word_suffix", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"vocab", vocab},
                            {"merges", Json::array()}}}};
  return tokenizer.dump(1) + "\n";
}

}  // namespace ashlar
