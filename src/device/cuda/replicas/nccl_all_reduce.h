// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over the replicas of a trainer on several GPUs of one machine.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/replicas/all_reduce.h"

namespace ashlar {

/// `devices`: numbers of GPUs, in the order of the replicas. Throws Error("cuda", ...).
std::vector<std::unique_ptr<AllReduce>> connect_by_nccl(std::span<const int32_t> devices);

}  // namespace ashlar
