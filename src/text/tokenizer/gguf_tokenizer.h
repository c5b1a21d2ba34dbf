#pragma once
// The text side of a model in a GGUF file, in the words of the Hugging Face files that it was made of.

#include "io/weights/gguf.h"
#include "text/tokenizer/tokenizer_config.h"

namespace ashlar::text {

/// The metadata tokenizer.ggml.* as the content of a tokenizer.json: vocabulary, merges, added tokens, and the sections
/// that the name in tokenizer.ggml.pre stands for. Byte-level BPE only. Throws Error("tokenizer", ...) that names the
/// file and the key, for another model, an unknown name, and arrays that do not fit each other.
Json gguf_tokenizer_json(const GgufFile& file);

/// Special tokens by their roles, and the chat templates. Throws Error("tokenizer", ...).
TokenizerConfig gguf_tokenizer_config(const GgufFile& file);

}  // namespace ashlar::text
