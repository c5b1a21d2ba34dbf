// SPDX-License-Identifier: Apache-2.0
#include "base/machine/control_groups.h"

#include <fstream>
#include <sstream>
#include <string>

namespace ashlar {
namespace {

namespace fs = std::filesystem;

// In a container the own group is often the root of what is mounted, whatever the process' path says.
void add_groups(const fs::path& mount, const std::string& group, bool unified, std::vector<ControlGroup>& out) {
  out.push_back({mount, unified});
  fs::path at = mount;
  for (const fs::path& part : fs::path(group).relative_path()) {
    if (part == "..") break;  // a group outside of what this process sees
    at /= part;
    out.push_back({at, unified});
  }
}

}  // namespace

// Lines of /proc/self/cgroup: hierarchy:controllers:path, of v2 "0::path".
std::vector<ControlGroup> control_groups(const fs::path& root, std::string_view controller) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::vector<ControlGroup> out;
  add_groups(mounts, "", true, out);
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) add_groups(mounts, group, true, out);
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) {
      if (name == controller) add_groups(mounts / name, group, false, out);
    }
  }
  return out;
}

}  // namespace ashlar
