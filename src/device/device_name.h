// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of devices as flags have them: a kind ("cpu", "cuda", "ref"), and of several GPUs which one, in the order of
// CUDA_VISIBLE_DEVICES ("cuda:1").

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

/// Leaves the choice to what this machine has (choose_device in device/device.h): the default.
inline constexpr const char* kAutoDevice = "auto";

/// Throws Error("device", ...) for a name of no device of this build, or a number where a kind has only one. Whether
/// the machine has it is not asked.
void check_device_name(std::string_view name);

/// Names of `n` devices of one kind, from the named one on. Throws Error("device", ...) where `n` > 1 and the kind has
/// only one.
std::vector<std::string> devices_from(std::string_view first, int32_t n);

}  // namespace ashlar
