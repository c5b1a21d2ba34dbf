// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <iterator>
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
#include "device/cuda/cuda_found.h"
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

std::vector<FoundDevice> every_machine_has_it(bool /*facts*/) { return {}; }

struct Device {
  const char* name;
  std::vector<FoundDevice> (*find)(bool facts);  ///< those of a kind that a machine may lack
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

// What every machine has first. The others are preferred to it in their order, where there are any.
constexpr Device kDevices[] = {
    {"cpu", every_machine_has_it, [](const DeviceOptions& options, int32_t) { return make_cpu_ops(options); },
     [](const DeviceOptions& options, int32_t) { return make_cpu_train_ops(options); }, connect_here, kAllKvDTypes,
     kAllWeights, true, false},
#ifdef ASHLAR_HAS_CUDA
    {"cuda", cuda::find_gpus, make_cuda_ops, make_cuda_train_ops, connect_by_nccl, kHalfAndCodes, kAllWeights, false,
     true},
#endif
    {"ref", every_machine_has_it, [](const DeviceOptions& options, int32_t) { return make_ref_ops(options.kv_dtype); },
     [](const DeviceOptions&, int32_t) { return make_ref_train_ops(); }, connect_here, kAllKvDTypes, kAsStored, false,
     false},
};

struct Named {
  const Device& device;
  int32_t index;
};

Named find_device(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':'));
  std::string names = kAutoDevice;
  for (const Device& device : kDevices) {
    names += ", " + std::string(device.name);
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

/// The first option that a kind of device lacks, as a flag has it; empty: none.
std::string lacks(const Device& device, const DeviceOptions& options) {
  if (!device.has_isas && !options.isa.empty()) return "--isa " + options.isa;
  if (std::ranges::find(device.kv_dtypes, options.kv_dtype) == device.kv_dtypes.end()) {
    return "--kv-dtype " + std::string(name_of(options.kv_dtype));
  }
  if (std::ranges::find(device.weights, options.weights) == device.weights.end()) {
    return "--weights " + std::string(name_of(options.weights));
  }
  return "";
}

}  // namespace

std::vector<FoundDevice> find_devices(bool facts) {
  std::vector<FoundDevice> out;
  for (const Device& device : kDevices) std::ranges::move(device.find(facts), std::back_inserter(out));
  return out;
}

DeviceChoice choose_device(const std::string& name, const DeviceOptions& options) {
  if (name == kAutoDevice) return choose_among(find_devices(false), options);
  find_device(name);
  return {name, ""};
}

DeviceChoice choose_among(const std::vector<FoundDevice>& there, const DeviceOptions& options) {
  const std::string usual = kDevices[0].name;
  std::string note;
  for (const FoundDevice& found : there) {
    if (found.what.empty()) continue;
    const std::string missing = found.problem.empty() ? lacks(find_device(found.name).device, options) : "";
    if (found.problem.empty() && missing.empty()) {
      return {found.name, found.name + ": " + found.what + " found (--device " + usual + ": the processor)"};
    }
    if (!note.empty()) continue;
    note = found.problem.empty() ? usual + ", as " + missing + " asks for; --device " + found.name + ": " + found.what
                                 : usual + ": " + found.what + " cannot be used: " + found.problem;
  }
  return {usual, note};
}

std::unique_ptr<Ops> make_device(const std::string& name, const DeviceOptions& options) {
  if (name == kAutoDevice) return make_device(choose_device(name, options).name, options);
  const auto [device, index] = find_device(name);
  check_choice("kv-dtype", name, "keeps no keys and values as ", options.kv_dtype, device.kv_dtypes);
  check_choice("weights", name, "keeps no weights as ", options.weights, device.weights);
  check_choice("drafter-weights", name, "keeps no weights as ", options.drafter_weights, device.weights);
  check_isa(device, options);
  return device.make(options, index);
}

std::unique_ptr<TrainOps> make_train_ops(const std::string& name, const DeviceOptions& options) {
  const auto [device, index] = find_device(choose_device(name, options).name);
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

void check_device_name(std::string_view name) {
  if (name != kAutoDevice) find_device(name);
}

std::vector<std::string> devices_from(std::string_view first, int32_t n) {
  const auto [device, index] = find_device(first);
  if (n == 1) return {std::string(first)};
  if (!device.is_several) {
    throw Error("device", "--gpus " + std::to_string(n) + " needs GPUs, and there is one " + std::string(device.name) +
                              " device; several GPUs need --device cuda");
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
