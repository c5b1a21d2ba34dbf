#include "base/error.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/train/cpu_train_ops.h"
#include "device/device.h"
#include "device/ref/ref_ops.h"
#include "device/ref/ref_train_ops.h"
#ifdef ASHLAR_HAS_CUDA
#include "device/cuda/cuda_ops.h"
#include "device/cuda/train/cuda_train_ops.h"
#endif

namespace ashlar {
namespace {

using MakeOps = std::unique_ptr<Ops> (*)(const DeviceOptions& options);

struct Device {
  const char* name;
  MakeOps make;
  bool codes_kv;  ///< has keys and values as codes (kv_codec.h)
};

// The default first.
constexpr Device kDevices[] = {
    {"cpu", make_cpu_ops, true},
#ifdef ASHLAR_HAS_CUDA
    {"cuda", make_cuda_ops, false},
#endif
    {"ref", [](const DeviceOptions& options) { return make_ref_ops(options.kv_dtype); }, true},
};

}  // namespace

std::unique_ptr<Ops> make_device(const std::string& name, const DeviceOptions& options) {
  std::string names;
  for (const Device& device : kDevices) {
    if (name == device.name) {
      if (kv_codec(options.kv_dtype) != nullptr && !device.codes_kv) {
        throw Error("kv-dtype", "the " + name + " device keeps no keys and values as " +
                                    std::string(name_of(options.kv_dtype)) + "; expected bf16, or another --device");
      }
      return device.make(options);
    }
    names += (names.empty() ? "" : ", ") + std::string(device.name);
  }
  throw Error("device", "unknown device '" + name + "'; expected one of: " + names);
}

std::unique_ptr<TrainOps> make_train_ops(const std::string& device, const DeviceOptions& options) {
  if (device == "cpu") return make_cpu_train_ops(options);
  if (device == "ref") return make_ref_train_ops();
#ifdef ASHLAR_HAS_CUDA
  if (device == "cuda") return make_cuda_train_ops(options);
#endif
  throw Error("device", "device '" + device + "' cannot train; expected cpu, cuda (in a build with it) or ref");
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const Device& device : kDevices) names.emplace_back(device.name);
  return names;
}

}  // namespace ashlar
