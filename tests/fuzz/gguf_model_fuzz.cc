// SPDX-License-Identifier: Apache-2.0
// Any bytes as the GGUF file of a model or of a drafter: a configuration, a tokenizer and a template, or Error.

#include <cstdint>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "io/weights/gguf.h"
#include "model/drafters/dflash_config.h"
#include "model/drafters/eagle3_config.h"
#include "model/gguf/gguf_config.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/gguf/gguf_tokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace {

template <class Read>
void attempt(const Read& read) {
  try {
    read();
  } catch (const ashlar::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ashlar::MemoryFile file(".gguf");
  file.fill(data, size);
  attempt([] { ashlar::read_model_config(file.path()); });
  attempt([] { ashlar::read_dflash_config(file.path()); });
  attempt([] { ashlar::read_eagle3_config(file.path()); });
  attempt([] {
    const auto tokenizer = ashlar::Tokenizer::from_model(file.path());
    tokenizer.decode(tokenizer.encode("a text 12", {.add_special_tokens = true}), false);
  });
  attempt([] { ashlar::ChatTemplate::from_model(file.path()); });
  return 0;
}
