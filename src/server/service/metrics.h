// SPDX-License-Identifier: Apache-2.0
#pragma once
// Figures of the server in the text format of Prometheus, under the names that vLLM uses where it has them.

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/http/http_server.h"

namespace ashlar::server {

/// Counts by upper bound, in seconds or tokens. Thread-safe.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);
  void observe(double value, int64_t times = 1);
  /// Lines of name_bucket, name_sum and name_count.
  void write(const std::string& name, const std::string& help, const std::string& labels, std::string& out) const;

 private:
  std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<int64_t> counts_;  // the last is beyond every bound
  double sum_ = 0;
};

/// What only the server knows; the rest is the engine's counters.
class ServiceMetrics {
 public:
  ServiceMetrics();

  void answer_ended(const RequestStats& stats, const std::string& reason);
  void refused(int status);
  void training_began();
  /// `gain`: tokens a verify step, on prompts that were held out.
  void drafter_replaced(double gain);

  Histogram first_token, between_tokens, whole_request, queue;
  Histogram decided;  ///< tokens of a pass

  /// The whole page.
  std::string write(const std::string& model, const EngineCounters& engine, const HttpCounters& http,
                    int64_t waiting_requests) const;

 private:
  mutable std::mutex mutex_;
  std::vector<int64_t> drafted_at_, accepted_at_, unmasked_in_pass_;
  std::array<int64_t, 5> reasons_{};  // stop, length, tool_calls, cancelled, error
  int64_t refused_busy_ = 0, refused_wrong_ = 0;
  int64_t trainings_ = 0, replaced_drafters_ = 0;
  double drafter_gain_ = 0;  // of the newest
};

}  // namespace ashlar::server
