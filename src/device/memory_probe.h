#pragma once
// How fast a device moves what lies in its own memory: the ceiling of decoding, which reads every weight once a step.

#include <cstdint>

namespace ashlar {

/// A buffer in device memory, beyond what its caches hold if there is room for it.
class MemoryProbe {
 public:
  virtual ~MemoryProbe() = default;
  virtual int64_t bytes() const = 0;
  virtual double read() = 0;  ///< seconds that reading them all once takes
  virtual double copy() = 0;  ///< seconds that copying the first half to the second takes
};

}  // namespace ashlar
