// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <span>

#include "base/error.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/train/cpu_train_ops.h"
#include "device/device.h"
#include "device/device_name.h"
#include "device/ref/ref_ops.h"
#include "device/ref/ref_train_ops.h"
#include "device/replicas/host_all_reduce.h"
#ifdef ASHLAR_HAS_CUDA
#include "device/cuda/cuda_ops.h"
#include "device/cuda/replicas/nccl_all_reduce.h"
#include "device/cuda/train/cuda_train_ops.h"
#endif

namespace ashlar {
namespace {

/// One that there is once leaves `index` alone.
using MakeOps = std::unique_ptr<Ops> (*)(const DeviceOptions& options, int32_t index);
using MakeTrainOps = std::unique_ptr<TrainOps> (*)(const DeviceOptions& options, int32_t index);
using Connect = std::vector<std::unique_ptr<AllReduce>> (*)(std::span<const int32_t> indices);

std::vector<std::unique_ptr<AllReduce>> connect_here(std::span<const int32_t> indices) {
  return connect_on_host(static_cast<int32_t>(indices.size()));
}

struct Device {
  const char* name;
  MakeOps make;
  MakeTrainOps make_train;
  Connect connect;
  std::span<const KvDType> kv_codes;  ///< that keys and values may be kept as (kv_codec.h)
  bool is_several;                    ///< a machine may have several, which are named by a number
};

constexpr KvDType kIntegers[] = {KvDType::kInt8};
constexpr KvDType kAllCodes[] = {KvDType::kInt8, KvDType::kTq4};

// The default first.
constexpr Device kDevices[] = {
    {"cpu", [](const DeviceOptions& options, int32_t) { return make_cpu_ops(options); },
     [](const DeviceOptions& options, int32_t) { return make_cpu_train_ops(options); }, connect_here, kAllCodes, false},
#ifdef ASHLAR_HAS_CUDA
    {"cuda", make_cuda_ops, make_cuda_train_ops, connect_by_nccl, kIntegers, true},
#endif
    {"ref", [](const DeviceOptions& options, int32_t) { return make_ref_ops(options.kv_dtype); },
     [](const DeviceOptions&, int32_t) { return make_ref_train_ops(); }, connect_here, kAllCodes, false},
};

struct Named {
  const Device& device;
  int32_t index;
};

Named find_device(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':'));
  std::string names;
  for (const Device& device : kDevices) {
    names += (names.empty() ? "" : ", ") + std::string(device.name);
    if (kind != device.name) continue;
    if (kind == name) return {device, 0};
    const std::string_view digits = name.substr(kind.size() + 1);
    int32_t index = -1;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    const bool is_number =
        read.ec == std::errc() && read.ptr == digits.data() + digits.size() && index >= 0 && index < 1024;
    if (is_number && device.is_several) return {device, index};
    throw Error("device", "unknown device '" + std::string(name) + "'; expected " + device.name +
                              (device.is_several
                                   ? std::string(", or a number of one of several after a colon: ") + device.name + ":1"
                                   : ""));
  }
  throw Error("device", "unknown device '" + std::string(name) + "'; expected one of: " + names);
}

}  // namespace

std::unique_ptr<Ops> make_device(const std::string& name, const DeviceOptions& options) {
  const auto [device, index] = find_device(name);
  if (kv_codec(options.kv_dtype) != nullptr &&
      std::ranges::find(device.kv_codes, options.kv_dtype) == device.kv_codes.end()) {
    std::string expected = "bf16";
    for (const KvDType codes : device.kv_codes) expected += ", " + std::string(name_of(codes));
    throw Error("kv-dtype", "the " + name + " device keeps no keys and values as " +
                                std::string(name_of(options.kv_dtype)) + "; expected one of: " + expected +
                                "; or another --device");
  }
  return device.make(options, index);
}

std::unique_ptr<TrainOps> make_train_ops(const std::string& name, const DeviceOptions& options) {
  const auto [device, index] = find_device(name);
  return device.make_train(options, index);
}

std::vector<std::unique_ptr<AllReduce>> connect_replicas(std::span<const std::string> devices) {
  ASHLAR_CHECK(!devices.empty());
  const Device& kind = find_device(devices.front()).device;
  std::vector<int32_t> indices;
  for (const std::string& name : devices) {
    const auto [device, index] = find_device(name);
    ASHLAR_CHECK(&device == &kind);
    indices.push_back(index);
  }
  return kind.connect(indices);
}

void check_device_name(std::string_view name) { find_device(name); }

std::vector<std::string> devices_from(std::string_view first, int32_t n) {
  const auto [device, index] = find_device(first);
  if (n == 1) return {std::string(first)};
  if (!device.is_several) {
    throw Error("device", "there is one " + std::string(device.name) + " device; several GPUs need --device cuda");
  }
  std::vector<std::string> names;
  for (int32_t i = 0; i < n; ++i) names.push_back(std::string(device.name) + ":" + std::to_string(index + i));
  return names;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const Device& device : kDevices) names.emplace_back(device.name);
  return names;
}

}  // namespace ashlar
