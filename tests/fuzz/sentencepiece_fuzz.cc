// SPDX-License-Identifier: Apache-2.0
// Bytes as a tokenizer.model. What must hold: Error or a tokenizer, whose ids are in its vocabulary and whose text is
// valid UTF-8.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const ashlar::text::SentencePieceModel model = ashlar::text::parse_sentencepiece(bytes, "fuzz");
    const ashlar::Json root = ashlar::text::sentencepiece_tokenizer_json(model, {}, {}, "fuzz");
    const ashlar::Tokenizer tokenizer = ashlar::Tokenizer::from_json(root.dump(), "fuzz");
    for (const std::string_view text : {std::string_view(" the fox->  <turn>\xC3\xA9 "), bytes}) {
      const auto ids = tokenizer.encode(text, {.add_special_tokens = true, .parse_special = size % 2 == 0});
      for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocab_size());
      require(ashlar::text::is_valid_utf8(tokenizer.decode(ids, true)));
    }
  } catch (const ashlar::Error&) {
  }
  return 0;
}
