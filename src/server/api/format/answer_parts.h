// SPDX-License-Identifier: Apache-2.0
#pragma once
// Deltas put together, in the order in which they came.

#include <vector>

#include "server/generation.h"

namespace ashlar::server {

AnswerDelta::Kind kind_of(const AnswerDelta& delta);
/// Appends `next` to `delta` if one delta can say both: of the same kind, or tokens without text. False: it cannot.
bool join(AnswerDelta& delta, const AnswerDelta& next);

/// Puts a delta at the end of an answer that is not streamed.
void append(FinishedAnswer& answer, const AnswerDelta& delta);
/// The answer as deltas, in its order.
std::vector<AnswerDelta> parts_of(const FinishedAnswer& answer);

}  // namespace ashlar::server
