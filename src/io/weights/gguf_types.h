// SPDX-License-Identifier: Apache-2.0
#pragma once
// The types that a GGUF file may give its metadata and its tensors. Source: the format's public description (ggml's
// docs/gguf.md) and the constants of the Python package gguf.

#include <cstdint>
#include <string>
#include <string_view>

namespace ashlar {

/// Of a metadata value, as the file numbers them.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12
};

/// Bytes of a value; 0: it says so itself (strings, arrays); -1: there is no such type.
int64_t bytes_of(GgufType type);

/// How the numbers of a tensor lie: `block` adjacent ones of its last dimension in `bytes` bytes.
struct GgufTensorType {
  uint32_t id;  ///< as the file numbers them
  std::string_view name;
  uint32_t block;
  uint32_t bytes;
};

/// nullptr: unknown.
const GgufTensorType* find_gguf_tensor_type(uint32_t id);

}  // namespace ashlar
