// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which processors there are for threads that compute.

#include <cstdint>
#include <filesystem>
#include <vector>

namespace ashlar {

/// A hardware thread as the kernel numbers it.
struct Cpu {
  int id = 0;
  int core = 0;  ///< the lowest id of its core's hardware threads: the same for threads that share a core
};

struct Cores {
  /// All that may be used: one of each core first, then the other threads of those cores.
  std::vector<Cpu> cpus;
  int32_t cores = 1;   ///< distinct ones among them, at least 1
  double granted = 0;  ///< cores' worth of time that control groups grant; 0: no limit

  /// Threads that spin for each other's work: one a core, and no more than get time at once.
  int32_t workers() const;
};

/// Of this process, by its affinity, the machine's topology and its control groups (v1 and v2).
Cores usable_cores();
/// Of a process that may use the CPUs `allowed`, with /sys and /proc below `root`. What cannot be read limits nothing.
Cores usable_cores(const std::vector<int>& allowed, const std::filesystem::path& root);

}  // namespace ashlar
