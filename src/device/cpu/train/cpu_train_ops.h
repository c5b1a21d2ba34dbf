// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training ops on the CPU: loops over rows and tiles on all threads, every sum in an order of its own.

#include <memory>

#include "device/train_ops.h"

namespace ashlar {

std::unique_ptr<TrainOps> make_cpu_train_ops(const DeviceOptions& options);

}  // namespace ashlar
