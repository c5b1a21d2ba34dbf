// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the program says when memory has run out where nothing can catch that: in a destructor, in noexcept functions of
// libraries.

namespace ashlar {

inline constexpr char kOutOfMemory[] =
    "out of memory; a smaller --kv-memory, --max-context or --max-sequences needs less";

/// From here on an uncaught std::bad_alloc ends the program as one that main catches does, with that message
/// and exit code 1. Anything else uncaught is a mistake of ours, reported as before, with a core dump.
void handle_uncaught_exceptions();

/// The message is to be a JSON object on its line, as all of such a log.
void terminate_as_json();

}  // namespace ashlar
