// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: one whose tensors and arrays lie within it, or Error.

#include <cstdint>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "io/weights/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ashlar::MemoryFile file;
  file.fill(data, size);
  volatile unsigned keep = 0;
  try {
    const ashlar::GgufFile opened(file.path());
    unsigned sum = 0;
    for (const auto& [name, tensor] : opened.tensors()) {
      for (size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    }
    for (const char* key : {"texts", "tokenizer.ggml.tokens"}) {
      if (!opened.has_array(key)) continue;
      for (const std::string_view text : opened.strings(key)) {
        for (const char c : text) sum += static_cast<unsigned char>(c);
      }
    }
    for (const char* key : {"integers", "tokenizer.ggml.token_type"}) {
      if (!opened.has_array(key)) continue;
      for (const int64_t value : opened.integers(key)) sum += static_cast<unsigned>(value);
    }
    keep = sum;
  } catch (const ashlar::Error&) {
  }
  return 0;
}
