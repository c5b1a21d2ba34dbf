// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a report has to say about the program and the machine it ran on.

#include <string>

#include "io/json.h"

namespace ashlar {

/// "0.1.0".
std::string build_version();
/// Commit of the source tree at build time, with "-modified" after it if tracked files differed; empty if unknown.
std::string build_commit();
/// Name of the processor as the system gives it; empty if unknown.
std::string processor_name();

/// {version, commit, build_type, compiler, processor, cores}.
Json describe_build();

}  // namespace ashlar
