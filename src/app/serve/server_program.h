// SPDX-License-Identifier: Apache-2.0
#pragma once
// A loaded model and its HTTP server, from start to end.

#include <functional>
#include <memory>
#include <string>

#include "app/serve/serve_options.h"

namespace ashlar {

class ServerProgram {
 public:
  /// Loads the model and starts to listen. Throws Error naming what is wrong.
  explicit ServerProgram(const ServeOptions& options);
  /// Cuts whatever is still running.
  ~ServerProgram();

  uint16_t port() const;
  std::string address() const;  ///< "http://127.0.0.1:8080"
  Log& log();
  /// Empty if requests would be answered; otherwise why not.
  std::string problem() const;
  /// Why the device can compute nothing more, so that this process has to end; empty: it can.
  std::string lost() const;

  /// Refuses new requests, waits for those that are running as long as the options allow, cancels the rest, closes.
  /// True if nothing had to be cancelled. `hurry` is asked every 100 ms whether to wait no longer.
  bool drain(const std::function<bool()>& hurry);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar
