// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a token is meant, by the numbers of SentencePiece, which GGUF files have taken over (tokenizer.ggml.token_type).

#include <cstdint>

namespace ashlar::text {

enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

}  // namespace ashlar::text
