// SPDX-License-Identifier: Apache-2.0
// Bytes as a tokenizer.json, as text and as token ids. What must hold: Error or a result, valid UTF-8 out, and the text
// that comes in parts equal to the text as a whole.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/output/output_text.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace {

using ashlar::Tokenizer;

constexpr std::string_view kByteLevel = R"({
  "added_tokens": [{"id": 261, "content": "<|end|>", "special": true}, {"id": 262, "content": " x", "lstrip": true,
                   "rstrip": true, "normalized": true}],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "(?i:'s|'t|'re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġa": 4, "ð": 5, "Ł": 6, "ðŁ": 7, "Ļ": 8, "Ĥ": 9},
            "merges": [["a", "b"], ["Ġ", "a"], ["ð", "Ł"]]}})";

constexpr std::string_view kCharacters = R"({
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "Lowercase"}]},
  "pre_tokenizer": {"type": "Whitespace"},
  "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ",
              "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": true,
            "vocab": {"?": 0, "a": 1, "é": 2, "aé": 3, "<0xF0>": 4, "<0x9F>": 5, "<0x99>": 6, "<0x82>": 7},
            "merges": ["a é"]}})";

// A map of characters of four units: whatever the input makes of it stays within its bounds.
constexpr std::string_view kUnigram = R"({
  "normalizer": {"type": "Precompiled", "precompiled_charsmap": "EAAAAAAEAAABAAAAYQQAAAAAAIBiAGMA"},
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
  "decoder": {"type": "Sequence", "decoders": [{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
              {"type": "ByteFallback"}, {"type": "Fuse"}]},
  "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true,
            "vocab": [["<unk>", 0], ["▁", -2], ["a", -3.5], ["é", -4], ["▁a", -3], ["aé", -5.25], ["<0xF0>", -9],
                      ["<0x9F>", -9], ["<0x99>", -9], ["<0x82>", -9]]}})";

void require(bool condition) {
  if (!condition) std::abort();
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text, {.add_special_tokens = true, .parse_special = text.size() % 2 == 0});
  for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocab_size());
  require(ashlar::text::is_valid_utf8(tokenizer.decode(ids, true)));
}

void decode(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c) - 1);
  ashlar::Detokenizer detokenizer(tokenizer, false);
  ashlar::OutputText output(tokenizer, false, {"ab", std::string(bytes.substr(0, 3))});
  std::string whole;
  std::string sent;
  for (const int32_t id : ids) {
    whole += detokenizer.push(id);
    require(ashlar::text::is_valid_utf8(whole));
    sent += output.push(std::span(&id, 1)).text;
  }
  whole += detokenizer.flush();
  sent += output.flush().text;
  require(whole == tokenizer.decode(ids, false));
  require(whole.starts_with(sent) && (output.stopped() || whole == sent));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer byte_level = Tokenizer::from_json(kByteLevel, "byte_level");
  static const Tokenizer characters = Tokenizer::from_json(kCharacters, "characters");
  static const Tokenizer unigram = Tokenizer::from_json(kUnigram, "unigram");
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      try {
        use(Tokenizer::from_json(input, "fuzz"), "a b\xC3\xA9 <|end|> 12");
      } catch (const ashlar::Error&) {
      }
      break;
    case 1:
      use(byte_level, input);
      use(characters, input);
      use(unigram, input);
      break;
    default:
      decode(byte_level, input);
      decode(characters, input);
      decode(unigram, input);
  }
  return 0;
}
