// SPDX-License-Identifier: Apache-2.0
#pragma once
// systemd's notification protocol (sd_notify(3)) over the datagram socket named by NOTIFY_SOCKET, without its library.

#include <chrono>
#include <optional>
#include <string>

namespace ashlar {

class ServiceManager {
 public:
  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and takes them from the environment of child processes.
  ServiceManager();
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  /// Whether somebody listens.
  bool present() const { return fd_ >= 0; }
  /// Sends lines such as "READY=1\nSTATUS=listening". Best effort: never blocks, never throws.
  void notify(const std::string& state) const;
  /// How often to send "WATCHDOG=1": half of the time after which the manager restarts the service. Empty: never.
  std::optional<std::chrono::microseconds> watchdog_interval() const { return interval_; }

 private:
  int fd_ = -1;  // connected
  std::optional<std::chrono::microseconds> interval_;
};

}  // namespace ashlar
