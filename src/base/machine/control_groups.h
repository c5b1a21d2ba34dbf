// SPDX-License-Identifier: Apache-2.0
#pragma once
// The control groups around this process, versions 1 and 2, as the kernel shows them.

#include <filesystem>
#include <string_view>
#include <vector>

namespace ashlar {

struct ControlGroup {
  std::filesystem::path folder;
  bool unified = true;  ///< of version 2, whose files have other names
};

/// The groups whose limits of `controller` ("cpu", "memory") hold for this process: its own and those around it, with
/// /sys and /proc below `root`. A folder may not exist. What cannot be read limits nothing.
std::vector<ControlGroup> control_groups(const std::filesystem::path& root, std::string_view controller);

}  // namespace ashlar
