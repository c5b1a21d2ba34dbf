// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server trains its drafter on while no request runs, and goes over to a better one.

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "app/serve/drafter_exchange.h"
#include "app/serve/idle_learner.h"
#include "app/serve/log.h"
#include "base/error.h"
#include "io/child_process.h"
#include "server/service/service.h"
#include "session/memory_budget.h"

namespace ashlar {

/// What a person should know where calibrations, which are processes that load the model once more, are to run in a
/// device's own memory that has no room for them now. Empty: nothing; the host's memory gives way by itself.
std::string warning_about_room(const MemorySituation& calibration);

/// Its thread runs `ashlar calibrate` as a process of the lowest priority, which is stopped while requests run, and
/// exchanges the engine when nothing runs: requests that come then wait for the new one.
class IdleLearning {
 public:
  struct Options {
    std::filesystem::path traffic;     ///< that the server keeps
    std::vector<std::string> program;  ///< that is run, without the arguments of a calibration; empty: this one
    IdleLearner::Policy policy;
  };
  /// What it is given outlives it.
  IdleLearning(Options options, Session& session, server::Service& service, const TrafficFiles& traffic, Log& log);
  /// Ends a training and waits for an exchange that has begun.
  ~IdleLearning();
  IdleLearning(const IdleLearning&) = delete;
  IdleLearning& operator=(const IdleLearning&) = delete;

  /// Ends a training and begins nothing from here on. Returns at once; thread-safe.
  void stop() { stop_ = true; }

  /// Where calibrations put the drafter that wins, for a folder of traffic.
  static std::filesystem::path drafter_folder(const std::filesystem::path& traffic);

 private:
  void run();
  void act(IdleLearner::Action action);
  void begin();
  void look_after();
  void finish(const ChildProcess::Exit& exit);
  void replace();
  Engine* change_back();
  std::string description() const noexcept;
  void fail(std::string_view what) noexcept;
  void lose(const DeviceLost& error) noexcept;
  void report(const std::exception& error, bool keeps_serving) noexcept;

  const Options options_;
  const Session& session_;
  server::Service& service_;
  const TrafficFiles& traffic_;
  Log& log_;
  std::atomic<bool> stop_{false};

  // The thread's own.
  IdleLearner learner_;
  DrafterExchange exchange_;
  std::optional<ChildProcess> child_;
  double gain_ = 0;  // of the drafter that won last
  std::thread thread_;
};

}  // namespace ashlar
