// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over replicas whose devices are the host's own: each adds up a part of the values, in the order of the replicas.

#include <cstdint>
#include <memory>
#include <vector>

#include "device/replicas/all_reduce.h"

namespace ashlar {

std::vector<std::unique_ptr<AllReduce>> connect_on_host(int32_t replicas);

}  // namespace ashlar
