// SPDX-License-Identifier: Apache-2.0
#pragma once
// Standard output, where a write that fails is not forgotten: a full disk must not look like success.

#include <string_view>

namespace ashlar {

/// Keeps the numbers of closed standard streams from files that are opened later: what is written there fails.
void hold_standard_streams();

/// These two remember the first error.
void write_output(std::string_view text);
void flush_output();
/// errno of that error; 0: all went well so far.
int output_error();
/// Throws Error("output", ...) if a write has failed, for work whose answers would be lost.
void check_output();

}  // namespace ashlar
