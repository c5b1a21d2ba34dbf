// SPDX-License-Identifier: Apache-2.0
#include "base/machine/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "base/machine/control_groups.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

// A list such as "0,8" or "0-1,16-17": its lowest number, or `none`.
int lowest_of(const fs::path& path, int none) {
  std::ifstream file(path);
  int first = none;
  return file >> first && first >= 0 ? std::min(first, none) : none;
}

// A positive quota of a period, in cores; else 0.
double share(double quota, double period) { return quota > 0 && period > 0 ? quota / period : 0; }

double grant_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period ? share(quota, period) : 0;  // "max 100000": no number
}

double grant_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period ? share(quota, period) : 0;  // -1: no limit
}

double granted_cores(const fs::path& root) {
  double least = 0;
  for (const ControlGroup& group : control_groups(root, "cpu")) {
    const double here = group.unified ? grant_v2(group.folder) : grant_v1(group.folder);
    if (here > 0 && (least == 0 || here < least)) least = here;
  }
  return least;
}

}  // namespace

int32_t Cores::workers() const {
  const int32_t timed = granted > 0 ? std::max(1, static_cast<int32_t>(granted + 0.01)) : cores;
  return std::min(cores, timed);
}

Cores usable_cores(const std::vector<int>& allowed, const fs::path& root) {
  Cores out;
  std::vector<Cpu> others;
  std::set<int> seen;
  for (const int id : allowed) {
    const fs::path topology = root / ("sys/devices/system/cpu/cpu" + std::to_string(id) + "/topology");
    const Cpu cpu{id, lowest_of(topology / "thread_siblings_list", id)};
    (seen.insert(cpu.core).second ? out.cpus : others).push_back(cpu);
  }
  out.cores = std::max<int32_t>(1, static_cast<int32_t>(out.cpus.size()));
  out.cpus.insert(out.cpus.end(), others.begin(), others.end());
  out.granted = granted_cores(root);
  return out;
}

Cores usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int id = 0; id < CPU_SETSIZE; ++id) {
      if (CPU_ISSET(id, &set)) allowed.push_back(id);
    }
  } else {  // more processors than the set has room for
    for (long id = 0; id < sysconf(_SC_NPROCESSORS_ONLN); ++id) allowed.push_back(static_cast<int>(id));
  }
  return usable_cores(allowed, "/");
}

}  // namespace ashlar
