// SPDX-License-Identifier: Apache-2.0
#pragma once
// Devices by name, registered in one function that can be read (devices.cc).

#include <memory>
#include <string>
#include <vector>

#include "device/kv/kv_codec.h"
#include "device/ops.h"
#include "device/weights/packed_store.h"

namespace ashlar {

struct DeviceOptions {
  int32_t threads = 0;  ///< workers; 0: one per core this process may use
  std::string isa;      ///< of the cpu device: "" picks the best that the machine has; otherwise one of isa_choices()
  KvDType kv_dtype = KvDType::kBF16;         ///< kF32: of cpu and ref alone
  KeptWeights weights = KeptWeights::kAuto;  ///< those that round: of the cpu and cuda devices
  /// Of products for drafts; kAuto: whatever suits the device.
  KeptWeights drafter_weights = KeptWeights::kAuto;
  PackedStore* packed = nullptr;  ///< null, or where the cpu device keeps what it rounds; outlives the device
};

/// Makes a device: "cpu", "ref" or, where built, "cuda" or "cuda:1". Throws Error("device") for another name or an isa
/// that the machine lacks, Error("kv-dtype"), Error("weights"), Error("drafter-weights") or
/// Error("isa") for what the device does not have.
std::unique_ptr<Ops> make_device(const std::string& name, const DeviceOptions& options);

/// Kinds of devices that make_device accepts, the default first.
std::vector<std::string> device_names();

/// Instruction sets of the cpu device that this machine can run, best first.
std::vector<std::string> isa_choices();

}  // namespace ashlar
