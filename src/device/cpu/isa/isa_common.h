// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every kernel file includes before it opens its target region: a standard header first seen inside a region would
// be compiled for that instruction set, and the linker could then pick that copy for code that runs anywhere.

// GCC 12 warns about the deliberately undefined operands inside its own AVX-512 header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bf16.h"
#include "device/cpu/isa/kernels.h"
#include "device/rows.h"
#include "device/tensor.h"

#define ASHLAR_INLINE inline __attribute__((always_inline))
