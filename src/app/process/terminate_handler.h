#pragma once
// What the program says when memory has run out where nobody can catch that: in a destructor, in noexcept functions of
// libraries.

namespace ashlar {

inline constexpr char kOutOfMemory[] =
    "out of memory; a smaller --kv-memory, --max-context or --max-sequences needs less";

/// From here on a std::bad_alloc that nobody catches ends the program as one that main catches does, with that message
/// and exit code 1. Anything else that nobody catches is a mistake of ours, told as before, with a core dump.
void handle_uncaught_exceptions();

/// The message is to be a JSON object on its line, as all of such a log.
void terminate_as_json();

}  // namespace ashlar
