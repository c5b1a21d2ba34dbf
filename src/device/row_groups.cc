// SPDX-License-Identifier: Apache-2.0
#include "device/row_groups.h"

#include "base/check.h"

namespace ashlar {

RowGroups group_rows(std::span<const int32_t> ids, int32_t limit) {
  std::vector<int32_t> next(static_cast<size_t>(limit) + 1);
  for (const int32_t id : ids) {
    ASHLAR_CHECK(id >= 0 && id < limit);
    ++next[static_cast<size_t>(id) + 1];
  }
  RowGroups groups;
  for (int32_t id = 0; id < limit; ++id) {
    const int32_t n = next[static_cast<size_t>(id) + 1];
    next[static_cast<size_t>(id) + 1] += next[static_cast<size_t>(id)];
    if (n == 0) continue;
    groups.ids.push_back(id);
    groups.begins.push_back(next[static_cast<size_t>(id)]);
  }
  groups.begins.push_back(static_cast<int32_t>(ids.size()));
  groups.entries.resize(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    groups.entries[static_cast<size_t>(next[static_cast<size_t>(ids[i])]++)] = static_cast<int32_t>(i);
  }
  return groups;
}

}  // namespace ashlar
