// SPDX-License-Identifier: Apache-2.0
#include "session/models/source_tree.h"

#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLevels = 8;      // from a test's program to the build folder
constexpr int kMaxLines = 10'000;  // of a CMakeCache.txt, which has some hundred
constexpr size_t kMaxLine = 4 << 10;

}  // namespace

std::optional<fs::path> source_tree_of(const fs::path& file) {
  std::error_code failed;
  fs::path folder = fs::weakly_canonical(file, failed).parent_path();
  if (failed) return std::nullopt;
  for (int level = 0; level < kMaxLevels && folder.has_relative_path(); ++level, folder = folder.parent_path()) {
    std::ifstream cache(folder / "CMakeCache.txt");
    if (!cache) continue;
    constexpr std::string_view kHome = "CMAKE_HOME_DIRECTORY:INTERNAL=";
    bool ours = false;
    fs::path home;
    std::string line;
    for (int i = 0; i < kMaxLines && std::getline(cache, line) && line.size() <= kMaxLine; ++i) {
      ours = ours || line == "CMAKE_PROJECT_NAME:STATIC=ashlar";
      if (line.starts_with(kHome)) home = line.substr(kHome.size());
    }
    if (!ours || home.empty()) return std::nullopt;
    return home;
  }
  return std::nullopt;
}

}  // namespace ashlar
