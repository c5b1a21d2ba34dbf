// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/token_model.h"

#include "io/json.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/unigram.h"

namespace ashlar::text {

std::unique_ptr<TokenModel> TokenModel::make(const JsonNode& model, bool byte_level) {
  const std::string type = model.text_or("type", "BPE");
  if (type == "BPE") return std::make_unique<Bpe>(model, byte_level);
  if (type != "Unigram") {
    model.fail("the model type '" + for_message(type) + "' is not supported (known: BPE, Unigram)");
  }
  if (byte_level) model.fail("a Unigram model after ByteLevel is not supported");
  return std::make_unique<Unigram>(model);
}

}  // namespace ashlar::text
