// SPDX-License-Identifier: Apache-2.0
#pragma once
// The devices of a run that has several: the target on each, and sums over all of them.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "train/replicas/replica.h"

namespace ashlar {

class TrainDevices {
 public:
  /// `target` is on the first of `devices`, with these options, and outlives this; further ones get a copy of it from
  /// its files. Throws what making a device, loading and connect_replicas() throw.
  TrainDevices(Model& target, std::span<const std::string> devices, const DeviceOptions& options);

  /// For a run over all of them, in their order.
  std::span<const TrainPlace> places() const { return places_; }

 private:
  struct Copy {
    std::unique_ptr<Ops> ops;
    std::unique_ptr<Model> model;
  };
  std::vector<Copy> copies_;
  std::vector<std::unique_ptr<AllReduce>> ends_;
  std::vector<TrainPlace> places_;
};

}  // namespace ashlar
