// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace ashlar {

/// What of a person's files a folder holds, by the XDG Base Directory Specification.
enum class UserFolder { kCache, kConfig, kState };

/// Ours: "ashlar" in $XDG_CACHE_HOME, $XDG_CONFIG_HOME or $XDG_STATE_HOME, where that is an absolute path (others are
/// to be ignored), else in ~/.cache, ~/.config or ~/.local/state. Empty: there is no home. It need not exist.
std::filesystem::path user_folder(UserFolder folder);

}  // namespace ashlar
