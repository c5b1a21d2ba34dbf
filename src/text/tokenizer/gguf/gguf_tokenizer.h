// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text side of a model in a GGUF file, in the words of the Hugging Face files that it was made of.

#include "io/weights/gguf.h"
#include "text/tokenizer/tokenizer_config.h"

namespace ashlar::text {

/// The metadata tokenizer.ggml.* as the content of a tokenizer.json: vocabulary, merges, added tokens, and the steps
/// that the kind of tokenizer stands for: "gpt2" (byte-level BPE, cut as tokenizer.ggml.pre says), "llama"
/// (SentencePiece BPE: scores in place of merges, which section `model` then has as "scores") and "gemma4" (the same
/// with merges). Throws Error("tokenizer", ...) that names the file and the key, for another kind, an unknown name, and
/// arrays that do not fit each other.
Json gguf_tokenizer_json(const GgufFile& file);

/// Special tokens by their roles, and the chat templates. Throws Error("tokenizer", ...).
TokenizerConfig gguf_tokenizer_config(const GgufFile& file);

}  // namespace ashlar::text
