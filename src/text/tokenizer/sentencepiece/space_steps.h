// SPDX-License-Identifier: Apache-2.0
#pragma once
// The steps of a tokenizer.json that do to spaces what SentencePiece does: each is U+2581 in the vocabulary, a
// character like any other.

#include "io/json.h"

namespace ashlar::text {

/// The normalizer: `before`, an array of others, then a space in front of every part of a text if `adds_prefix`.
Json space_normalizer(Json before, bool adds_prefix);
/// The decoder, which takes that space away from a text's begin, and makes text of tokens for bytes.
Json space_decoder(bool adds_prefix);

}  // namespace ashlar::text
