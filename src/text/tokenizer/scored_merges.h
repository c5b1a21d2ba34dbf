// SPDX-License-Identifier: Apache-2.0
#pragma once
// SentencePiece's BPE (Kudo and Richardson 2018), which has a score for each token in place of a list of merges: of all
// neighbours that make a token together, those that make the one of the highest score are merged first.

#include <vector>

#include "text/template/json_node.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/token_table.h"

namespace ashlar::text {

/// The merges that scores stand for. `scores`: of every token of `vocabulary`, by id; null for one that no merge makes
/// or takes. A token is made of any two others that give its spelling; those of equal scores have equal ranks. Throws
/// Error on another number of scores, on values that are no numbers and on texts too long to be looked through.
MergeTable merges_of_scores(const JsonNode& scores, const TokenTable& vocabulary);

}  // namespace ashlar::text
