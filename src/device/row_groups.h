// SPDX-License-Identifier: Apache-2.0
#pragma once
// Entries of a list in groups of equal ids, so that what is added in one place may be added in the entries' order.

#include <cstdint>
#include <span>
#include <vector>

namespace ashlar {

struct RowGroups {
  std::vector<int32_t> ids;      ///< that there are, ascending
  std::vector<int32_t> begins;   ///< [ids + 1]: of their entries
  std::vector<int32_t> entries;  ///< by id, then ascending

  int32_t n() const { return static_cast<int32_t>(ids.size()); }
};

/// Of ids in [0, limit).
RowGroups group_rows(std::span<const int32_t> ids, int32_t limit);

}  // namespace ashlar
