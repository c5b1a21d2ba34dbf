// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts what a program compares, where a time would depend on the machine.

#include <cstdint>

namespace ashlar::test {

/// Comparisons of two texts that this thread has made: calls of memcmp, for which this program has its own. A table
/// makes one for each entry whose hash is that of the key, or for each that an ordered search passes.
uint64_t text_comparisons();

}  // namespace ashlar::test
