// SPDX-License-Identifier: Apache-2.0
#pragma once
// What drafters of all kinds store alike: what their names begin with, and the vocabulary of one that knows the
// target's most frequent tokens only (t2d and d2t of EAGLE-3 and of speculators).

#include <string>
#include <vector>

#include "model/binding/tensor_names.h"
#include "model/binding/weight_binder.h"

namespace ashlar {

/// "model." or nothing: checkpoints of drafters differ in whether names start with it.
std::string find_prefix(const WeightBinder& binder);

/// The target id of each of `draft_vocab` entries, from the tensor d2t, which holds id - entry or, where `names` says
/// so, the id; empty: the ids themselves, where there is no such tensor and both vocabularies are as large. Takes t2d
/// too, which follows from it. Throws Error("drafter", ...) for an entry that leads outside of the target's `vocab`.
std::vector<int32_t> bind_draft_vocabulary(WeightBinder& binder, const DrafterNames& names, int32_t draft_vocab,
                                           int32_t vocab);

/// The same of a checkpoint whose vocabulary is a part of the target's, without binding. Throws the same, and where
/// there is no such tensor.
std::vector<int32_t> read_draft_vocabulary(const Checkpoint& checkpoint, const DrafterNames& names, int32_t draft_vocab,
                                           int32_t vocab);

}  // namespace ashlar
