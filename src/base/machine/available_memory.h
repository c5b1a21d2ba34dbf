// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much memory this process may still take.

#include <cstdint>
#include <filesystem>
#include <string>

namespace ashlar {

struct AvailableMemory {
  int64_t bytes = 0;  ///< that can be had without swapping; 0: unknown, or none
  int64_t group_limit =
      0;                   ///< of the control group that leaves least, where that is less than the machine has; 0: none
  std::string owner = {};  ///< whose own memory it is, for people ("the GPU"); empty: the host's
  int64_t total = 0;       ///< all that the owner has; 0: there is none, or it is unknown
  int64_t reserved = 0;    ///< free, too, but left to what the owner takes by itself: not part of `bytes`
  bool known() const { return bytes > 0 || group_limit > 0 || total > 0; }
};

/// The least of what the machine has available and of what each control group around this process (v1 and v2) leaves:
/// its limit less what is in use there. Page cache counts as available: the kernel drops it before anything has to end.
/// Reads /sys and /proc below `root`; what cannot be read limits nothing.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

}  // namespace ashlar
