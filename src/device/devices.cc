#include "base/error.h"
#include "device/cpu/cpu_ops.h"
#include "device/device.h"
#include "device/ref/ref_ops.h"

namespace ashlar {

std::unique_ptr<Ops> make_device(const std::string& name, const DeviceOptions& options) {
  if (name == "cpu") return make_cpu_ops(options);
  if (name == "ref") return make_ref_ops();
  throw Error("device", "unknown device '" + name + "'; expected ref or cpu");
}

std::vector<std::string> device_names() { return {"cpu", "ref"}; }

}  // namespace ashlar
