// SPDX-License-Identifier: Apache-2.0
#pragma once
// The engine that answers. While nothing runs another one may take its place; totals go on.

#include <mutex>
#include <string>
#include <utility>

#include "engine/engine.h"

namespace ashlar::server {

/// All is thread-safe.
class ServingEngine {
 public:
  /// What is known of it while there is none, too.
  struct Facts {
    std::string description;  ///< for people, in a line: model, drafter, device
    std::string decoder_name;
    int32_t max_width = 0, block_size = 0;
  };

  ServingEngine(Engine& engine, std::string description) { open(engine, std::move(description)); }

  /// For who sees to it that it is not closed meanwhile.
  Engine& get() const;
  /// Totals of all engines so far, and the newest sign of work of any; the rest is the newest's, and 0 while there is
  /// none.
  EngineCounters counters() const;
  Facts facts() const;
  /// Why nothing can be answered any more (Engine::lost, or what lose() was given); empty: it can, or there is none.
  std::string lost() const;

  /// From here on the engine may be ended. Nothing runs on it, and nothing is submitted.
  void close();
  /// `engine` outlives this, or is closed before it ends.
  void open(Engine& engine, std::string description) noexcept;
  /// There is none, and none can be made: the device is lost.
  void lose(std::string why) noexcept;

 private:
  mutable std::mutex mutex_;
  Engine* engine_ = nullptr;
  EngineCounters before_;  // of those that were closed
  std::string lost_;       // with one that was closed, or without any
  Facts facts_;
};

}  // namespace ashlar::server
