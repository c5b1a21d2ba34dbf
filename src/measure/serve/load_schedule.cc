// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/load_schedule.h"

#include <algorithm>
#include <cmath>

#include "measure/report/table.h"

namespace ashlar {

std::string level_name(const LoadLevel& level) {
  return level.concurrency > 0 ? std::to_string(level.concurrency) + " at a time"
                               : three_digits(level.rate) + " a second";
}

LoadSchedule::LoadSchedule(const LoadLevel& level, int64_t requests, double duration_s, uint64_t seed, int64_t start_ns)
    : level_(level), requests_(requests), duration_s_(duration_s), start_ns_(start_ns), random_(seed) {
  if (level_.rate > 0) next_s_ = gap_s();
}

double LoadSchedule::gap_s() {
  const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;  // below 1
  return -std::log1p(-uniform) / level_.rate;
}

bool LoadSchedule::may_send(int64_t now_ns) const {
  if (requests_ > 0 && sent_ >= requests_) return false;
  if (duration_s_ <= 0) return requests_ > 0;
  return (level_.rate > 0 ? next_s_ : seconds(now_ns)) < duration_s_;
}

bool LoadSchedule::due(int64_t now_ns, size_t in_flight) const {
  if (!may_send(now_ns)) return false;
  return level_.rate > 0 ? next_s_ <= seconds(now_ns) : in_flight < static_cast<size_t>(level_.concurrency);
}

std::pair<size_t, int64_t> LoadSchedule::take(int64_t now_ns) {
  int64_t start_ns = now_ns;
  if (level_.rate > 0) {
    start_ns = start_ns_ + static_cast<int64_t>(next_s_ * 1e9);
    next_s_ += gap_s();
  }
  return {static_cast<size_t>(sent_++), start_ns};
}

int LoadSchedule::wait_ms(int64_t now_ns) const {
  constexpr double kLongest = 100;
  if (level_.rate <= 0 || !may_send(now_ns)) return static_cast<int>(kLongest);
  return static_cast<int>(std::clamp((next_s_ - seconds(now_ns)) * 1e3, 0.0, kLongest));
}

}  // namespace ashlar
