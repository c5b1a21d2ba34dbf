// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast this machine reads memory: the ceiling of decoding, which reads every weight once a step.

#include <cstdint>

#include "device/ops.h"

namespace ashlar {

struct Bandwidth {
  double best = 0;           ///< bytes per second of the fastest pass
  double median = 0;         ///< and of the median one
  int64_t buffer_bytes = 0;  ///< read in each pass
  int32_t threads = 0;       ///< of the host; 0: a device read its own memory
};

/// Size of the last-level cache as the system states it; 0 if unknown.
int64_t last_level_cache_bytes();

/// A buffer that a last-level cache cannot hold: four times its size and at least 1 GiB, but at most `available` / 4
/// (0: unknown).
int64_t bandwidth_buffer_bytes(int64_t available);

/// Reads a buffer of `bytes` over and over on `threads` workers for about `seconds`, at least three passes after a
/// first one that does not count. Every byte is loaded, each worker walks forward with a prefetch distance of 1 KiB.
Bandwidth measure_read_bandwidth(int32_t threads, int64_t bytes, double seconds);

/// The same of the memory that `ops` computes with: the device's own, or the host's by the device's threads.
Bandwidth measure_read_bandwidth(Ops& ops, int64_t bytes, double seconds);
/// Copies within a device's own memory, bytes read and written together; nothing where it has none.
Bandwidth measure_copy_bandwidth(Ops& ops, int64_t bytes, double seconds);
/// Multiplications and additions a second of a device's matrix units in bf16, the median of about `seconds`; 0 where
/// the device is the host.
double measure_products(Ops& ops, double seconds);

}  // namespace ashlar
