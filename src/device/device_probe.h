// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast a device moves what lies in its own memory, and how fast it multiplies: the ceilings of decoding, which
// reads every weight once a step, and of prompts, whose rows share what is read.

#include <cstdint>

namespace ashlar {

/// A buffer in device memory, beyond what its caches hold if there is room for it.
class DeviceProbe {
 public:
  virtual ~DeviceProbe() = default;
  virtual int64_t bytes() const = 0;
  virtual double read() = 0;  ///< seconds that reading them all once takes
  virtual double copy() = 0;  ///< seconds that copying the first half to the second takes
  /// Multiplications and additions a second of matrix units in bf16 with sums in fp32 that read nothing from memory.
  /// Takes some 50 milliseconds, since a device may slow down when all of it is busy.
  virtual double multiply() = 0;
};

}  // namespace ashlar
