#pragma once
// Devices by name, registered in one function that can be read (devices.cc).

#include <memory>
#include <string>
#include <vector>

#include "device/ops.h"

namespace ashlar {

struct DeviceOptions {
  int32_t threads = 0;                       ///< workers; 0: one per core this process may use
  std::string isa;                           ///< "" picks the best that the machine has; otherwise one of isa_choices()
  DType kv_dtype = DType::kBF16;             ///< element of the KV cache on the cpu device: kBF16 or kF32
  KeptWeights weights = KeptWeights::kAuto;  ///< of the cpu and cuda devices
};

/// Makes a device: "cpu", "ref" or, in a build with CUDA, "cuda". Throws Error("device", ...) for an unknown name or an
/// instruction set the machine lacks.
std::unique_ptr<Ops> make_device(const std::string& name, const DeviceOptions& options);

/// Names make_device accepts, the default first.
std::vector<std::string> device_names();

/// Instruction sets of the cpu device that this machine can run, best first.
std::vector<std::string> isa_choices();

}  // namespace ashlar
