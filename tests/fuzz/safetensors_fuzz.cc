// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: a file whose tensors lie within it, or Error.

#include <cstdint>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "io/weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ashlar::MemoryFile file;
  file.fill(data, size);
  try {
    const ashlar::SafetensorsFile opened(file.path());
    unsigned sum = 0;
    for (const auto& [name, tensor] : opened.tensors()) {
      for (size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    }
    volatile unsigned keep = sum;
    (void)keep;
  } catch (const ashlar::Error&) {
  }
  return 0;
}
