// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

namespace ashlar {

/// The sources that the build folder holding `file` was configured for, as its CMakeCache.txt says; nothing if `file`
/// does not lie in a build folder of this project. A program that was installed or packed knows of no path of the
/// machine that built it.
std::optional<std::filesystem::path> source_tree_of(const std::filesystem::path& file);

}  // namespace ashlar
