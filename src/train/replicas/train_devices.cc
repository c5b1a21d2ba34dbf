// SPDX-License-Identifier: Apache-2.0
#include "train/replicas/train_devices.h"

#include "train/run/drafter_training.h"

namespace ashlar {

TrainDevices::TrainDevices(Model& target, std::span<const std::string> devices, const DeviceOptions& options) {
  // First, so that what is missing is said before gigabytes are loaded.
  if (devices.size() > 1) ends_ = connect_replicas(devices);
  for (size_t i = 0; i < devices.size(); ++i) {
    Model* model = &target;
    if (i > 0) {
      Copy& copy = copies_.emplace_back();
      copy.ops = make_device(devices[i], options);
      copy.model = Model::load(*copy.ops, target.config().folder, target.max_positions());
      model = copy.model.get();
    }
    AllReduce* const end = ends_.empty() ? nullptr : ends_[i].get();
    places_.push_back({model, drafter_training(*model, devices[i], options, end), end});
  }
}

}  // namespace ashlar
