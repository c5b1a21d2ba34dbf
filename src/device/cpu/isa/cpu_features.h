// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which kernel paths this machine can run: instruction bits, and that the operating system saves the registers.

#include <string>
#include <vector>

#include "device/cpu/isa/kernels.h"

namespace ashlar::cpu {

/// Names of runnable paths, best first; "portable" is always the last. Asks the kernel for AMX tile state once per
/// process, so the first call must come before the threads that will use it are started.
const std::vector<std::string>& runnable_isas();

/// Whether the AVX-512 paths can multiply bytes here (VNNI).
bool multiplies_bytes();
/// Whether the AVX2 path can multiply 16 bits and add in one instruction here (AVX-VNNI).
bool adds_products();

/// Kernels of a path. Throws Error("device", ...) for a name that is unknown or not runnable here.
const Kernels& kernels_for(const std::string& isa);

}  // namespace ashlar::cpu
