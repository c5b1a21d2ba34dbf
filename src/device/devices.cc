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
#include "device/weights/kept_weights.h"
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
  std::span<const KvDType> kv_dtypes;    ///< that keys and values may be kept as
  std::span<const KeptWeights> weights;  ///< that products may take
  bool has_isas;                         ///< instruction sets to choose from
  bool is_several;                       ///< a machine may have several, which are named by a number
};

constexpr KvDType kHalfAndCodes[] = {KvDType::kBF16, KvDType::kInt8, KvDType::kTq4};
constexpr KvDType kAllKvDTypes[] = {KvDType::kBF16, KvDType::kF32, KvDType::kInt8, KvDType::kTq4};
constexpr KeptWeights kAsStored[] = {KeptWeights::kAuto, KeptWeights::kExact};
constexpr KeptWeights kAllWeights[] = {KeptWeights::kAuto, KeptWeights::kInt4, KeptWeights::kInt8, KeptWeights::kFp8,
                                       KeptWeights::kExact};

// The default first.
constexpr Device kDevices[] = {
    {"cpu", [](const DeviceOptions& options, int32_t) { return make_cpu_ops(options); },
     [](const DeviceOptions& options, int32_t) { return make_cpu_train_ops(options); }, connect_here, kAllKvDTypes,
     kAllWeights, true, false},
#ifdef ASHLAR_HAS_CUDA
    {"cuda", make_cuda_ops, make_cuda_train_ops, connect_by_nccl, kHalfAndCodes, kAllWeights, false, true},
#endif
    {"ref", [](const DeviceOptions& options, int32_t) { return make_ref_ops(options.kv_dtype); },
     [](const DeviceOptions&, int32_t) { return make_ref_train_ops(); }, connect_here, kAllKvDTypes, kAsStored, false,
     false},
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

// A setting that changes nothing is refused: what is measured with it would be taken for its effect.
template <class Choice>
void check_choice(const char* setting, const std::string& name, const char* lacks, Choice chosen,
                  std::span<const Choice> choices) {
  if (std::ranges::find(choices, chosen) != choices.end()) return;
  std::string expected;
  for (const Choice choice : choices) expected += (expected.empty() ? "" : ", ") + std::string(name_of(choice));
  throw Error(setting, "the " + name + " device " + lacks + std::string(name_of(chosen)) +
                           "; expected one of: " + expected + "; or another --device");
}

void check_isa(const Device& device, const DeviceOptions& options) {
  if (device.has_isas || options.isa.empty()) return;
  throw Error("isa", "--isa " + options.isa +
                         " (ASHLAR_FORCE_ISA is the same) is for the cpu device: leave it out with " + device.name);
}

}  // namespace

std::unique_ptr<Ops> make_device(const std::string& name, const DeviceOptions& options) {
  const auto [device, index] = find_device(name);
  check_choice("kv-dtype", name, "keeps no keys and values as ", options.kv_dtype, device.kv_dtypes);
  check_choice("weights", name, "keeps no weights as ", options.weights, device.weights);
  check_choice("drafter-weights", name, "keeps no weights as ", options.drafter_weights, device.weights);
  check_isa(device, options);
  return device.make(options, index);
}

std::unique_ptr<TrainOps> make_train_ops(const std::string& name, const DeviceOptions& options) {
  const auto [device, index] = find_device(name);
  check_isa(device, options);
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
