// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stored weights by their content.

#include <cstdint>

#include "device/weights/weight_source.h"

namespace ashlar {

/// A hash (content_hash) of all that decode_rows() depends on for rows [begin, end). Reads what is stored, once; of
/// numbers with scales, which lie in several places, it takes the values they stand for.
uint64_t hash_rows(const WeightPart& part, int64_t begin, int64_t end);

}  // namespace ashlar
