// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mapped files that become shorter. The kernel answers a read after a file's new end with SIGBUS, which ends the
// program. While a file is watched, such a read finds zeros and is remembered.

#include <cstddef>

namespace ashlar {

class FileWatch;

/// Watches the mapping [begin, begin + bytes). The handler of SIGBUS is this file's as long as anything is watched;
/// what it has nothing to do with goes to the handler before it. Any thread may read the mapping.
FileWatch* watch_file(const std::byte* begin, size_t bytes);
/// Call before the mapping goes.
void end_watch(FileWatch* watch);
/// Whether something in the mapping was read that was not there.
bool was_cut(const FileWatch& watch);

}  // namespace ashlar
