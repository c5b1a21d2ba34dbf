// SPDX-License-Identifier: Apache-2.0
#pragma once
// Devices by name, registered in one function that can be read (devices.cc).

#include <memory>
#include <string>
#include <vector>

#include "device/device_name.h"
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

/// A device that a machine may lack, as a GPU.
struct FoundDevice {
  std::string name;     ///< as make_device takes it: "cuda", "cuda:1"
  std::string problem;  ///< why this program cannot use it; empty: it can
  std::string what;     ///< for people: "NVIDIA H200"; empty: the machine has none
  std::string facts;    ///< for people, if they are asked for: memory, driver, compute capability
};

/// Devices of the kinds that a machine may lack, in the order of preference. Where a kind of this build has none, an
/// entry that says in its problem what is missing. With `facts` they are asked for more, which takes longer.
std::vector<FoundDevice> find_devices(bool facts);

struct DeviceChoice {
  std::string name;  ///< never kAutoDevice
  std::string note;  ///< of kAutoDevice: what was found and what would change that; empty where there is no choice
};

/// For kAutoDevice: the first of find_devices() that can be used and has what the options ask for, else the host's
/// processor. Another name stays. Throws Error("device") for a name of no device.
DeviceChoice choose_device(const std::string& name, const DeviceOptions& options);
/// The same for kAutoDevice, among these.
DeviceChoice choose_among(const std::vector<FoundDevice>& there, const DeviceOptions& options);

/// Makes a device: "auto", "cpu", "ref" or, where built, "cuda" or "cuda:1". Throws Error("device") for another name or
/// an isa that the machine lacks, Error("kv-dtype"), Error("weights"), Error("drafter-weights") or Error("isa") for
/// what the device does not have.
std::unique_ptr<Ops> make_device(const std::string& name, const DeviceOptions& options);

/// Kinds of devices that make_device accepts, besides kAutoDevice: that of the host's processor first.
std::vector<std::string> device_names();

/// Instruction sets of the cpu device that this machine can run, best first.
std::vector<std::string> isa_choices();

}  // namespace ashlar
