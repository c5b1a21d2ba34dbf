// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast a device moves what lies in its own memory, and how fast it multiplies: the ceilings of decoding, which
// reads every weight once a step, and of prompts, whose rows share what is read. And how much of its time it works.

#include <cstdint>
#include <vector>

namespace ashlar {

/// What a device did for a while, by its own clock.
struct DeviceWork {
  double seconds = 0;          ///< from the beginning of the first kernel to the end of the last
  double idle = 0;             ///< seconds of these without a kernel to run; copies count as idle
  int64_t loose_launches = 0;  ///< kernels that the host launched one by one, not as parts of a recorded pass
};

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
  /// From now on the device notes when it works, until this object ends, which costs it a few microseconds for each
  /// pass. Called again, what was noted is forgotten. Not while the device is at work, as work().
  virtual void watch() = 0;
  /// What the device did since watch().
  virtual DeviceWork work() = 0;
  /// The device notes its time when it has done what was asked of it before. Nothing waits.
  virtual void mark() = 0;
  /// Seconds from the first mark to each of them, which are forgotten. Waits for the device.
  virtual std::vector<double> take_marks() = 0;
};

}  // namespace ashlar
