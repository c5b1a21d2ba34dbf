// SPDX-License-Identifier: Apache-2.0
#include "base/machine/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "base/machine/control_groups.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

// A file of one number; none where it says "max", cannot be read or is no number.
std::optional<int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (!(file >> value) || value < 0) return std::nullopt;
  return value;
}

// Lines of "name number", with more after the number or not; 0 where the name is missing.
int64_t number_of(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string line_name, rest;
  for (int64_t value = 0; file >> line_name >> value; std::getline(file, rest)) {
    if (line_name == name) return std::max<int64_t>(value, 0);
  }
  return 0;
}

int64_t page_cache(const ControlGroup& group) {
  // In version 1 the plain names leave out the groups inside, whose use counts.
  const std::string prefix = group.unified ? "" : "total_";
  const fs::path file = group.folder / "memory.stat";
  const int64_t inactive = number_of(file, prefix + "inactive_file"), active = number_of(file, prefix + "active_file");
  return inactive > std::numeric_limits<int64_t>::max() - active ? inactive : inactive + active;
}

// The memory.high of version 2 ends nothing, but slows down a process above it until that is hardly running.
std::optional<int64_t> limit_of(const ControlGroup& group) {
  // Version 1 says the largest multiple of a page where there is no limit.
  constexpr int64_t kNone = int64_t{1} << 60;
  std::optional<int64_t> least;
  const auto take = [&](const char* name) {
    const auto limit = number_in(group.folder / name);
    if (limit && *limit < kNone) least = std::min(least.value_or(kNone), *limit);
  };
  if (group.unified) {
    take("memory.max");
    take("memory.high");
  } else {
    take("memory.limit_in_bytes");
  }
  return least;
}

}  // namespace

AvailableMemory available_memory(const fs::path& root) {
  AvailableMemory out;
  const int64_t kib = number_of(root / "proc/meminfo", "MemAvailable:");
  out.bytes = std::min(kib, std::numeric_limits<int64_t>::max() / 1024) * 1024;
  for (const ControlGroup& group : control_groups(root, "memory")) {
    const auto limit = limit_of(group);
    if (!limit) continue;
    const char* use = group.unified ? "memory.current" : "memory.usage_in_bytes";
    const int64_t in_use = number_in(group.folder / use).value_or(0);
    const int64_t held = std::max<int64_t>(0, in_use - page_cache(group));
    const int64_t left = std::max<int64_t>(0, *limit - held);
    if (out.known() && left >= out.bytes) continue;
    out.bytes = left;
    out.group_limit = std::max<int64_t>(1, *limit);
  }
  return out;
}

}  // namespace ashlar
