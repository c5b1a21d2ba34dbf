// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

namespace ashlar {

/// How hard a server is pressed. One of the two is set.
struct LoadLevel {
  int32_t concurrency = 0;  ///< closed loop: requests at a time
  double rate = 0;          ///< open loop: mean arrivals a second, Poisson
};

/// "8 at a time", "2.5 a second".
std::string level_name(const LoadLevel& level);

/// When the requests of one level are sent. Times are nanoseconds of base/clock.h, given by the caller.
class LoadSchedule {
 public:
  /// Ends after `requests` (0: no limit) or `duration_s` (0: no limit) of sending, whichever comes first; one of them
  /// is set. Gaps of an open loop are exponential with mean 1 / rate, a pure function of the seed.
  LoadSchedule(const LoadLevel& level, int64_t requests, double duration_s, uint64_t seed, int64_t start_ns);

  /// Whether there will be another request.
  bool may_send(int64_t now_ns) const;
  /// Whether one is to be sent now, while `in_flight` wait for answers.
  bool due(int64_t now_ns, size_t in_flight) const;
  /// Takes the one that is due: its number, from 0, and when it was to start. In an open loop that is its arrival, so
  /// that a late start counts as waiting.
  std::pair<size_t, int64_t> take(int64_t now_ns);
  /// How long to wait for answers, in whole milliseconds and at most 100: an arrival is never late by more than one.
  int wait_ms(int64_t now_ns) const;
  /// Since the start.
  double seconds(int64_t now_ns) const { return static_cast<double>(now_ns - start_ns_) * 1e-9; }

 private:
  double gap_s();

  LoadLevel level_;
  int64_t requests_;
  double duration_s_;
  int64_t start_ns_;
  std::mt19937_64 random_;
  double next_s_ = 0;
  int64_t sent_ = 0;
};

}  // namespace ashlar
