// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of hidden states: as many numbers as the layout says, or an Error.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "train/capture/hidden_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ashlar::MemoryFile file;
  file.fill(data, size);
  const std::vector<int32_t> ids = {1, 2};
  for (const bool final_hidden : {false, true}) {
    try {
      const ashlar::HiddenLayout layout = {"mark", {0, 2}, 2, final_hidden};
      const ashlar::HiddenFile opened(file.path(), ids, layout);
      std::vector<float> aux(8), last(4);
      opened.read_aux(ashlar::DType::kF32, reinterpret_cast<std::byte*>(aux.data()));
      if (final_hidden) opened.read_final(ashlar::DType::kF32, reinterpret_cast<std::byte*>(last.data()));
      for (const std::vector<float>* values : {&aux, &last}) {
        for (const float value : *values) {
          if (!std::isfinite(value)) std::abort();
        }
      }
    } catch (const ashlar::Error&) {
    }
  }
  return 0;
}
