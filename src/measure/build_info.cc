// SPDX-License-Identifier: Apache-2.0
#include "measure/build_info.h"

#include <fstream>

#include "base/machine/cores.h"
#include "measure_commit.h"

namespace ashlar {

std::string build_version() { return ASHLAR_VERSION; }

std::string build_commit() { return ASHLAR_COMMIT; }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

Json describe_build() {
  return {{"version", build_version()}, {"commit", build_commit()},      {"build_type", ASHLAR_BUILD_TYPE},
          {"compiler", __VERSION__},    {"processor", processor_name()}, {"cores", usable_cores().cores}};
}

}  // namespace ashlar
