// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tokens a drafter needs that drafts some of the vocabulary alone.

#include <cstdint>
#include <span>
#include <vector>

#include "train/data/document_set.h"

namespace ashlar {

/// The `n` of `vocab` token ids that are learnt most often in the documents that are trained on, each counted by its
/// weight; of equals the lowest. Ascending.
std::vector<int32_t> frequent_tokens(const DocumentSet& documents, int32_t vocab, int32_t n);

/// The share of these ids, which ascend, in what is learnt; counted in the same way.
double share_of_learnt(const DocumentSet& documents, std::span<const int32_t> ids);

}  // namespace ashlar
