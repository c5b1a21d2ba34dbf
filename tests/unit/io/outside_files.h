// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files as somebody else would have made them, right and wrong, and the question whether an error says enough.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar::testing {

inline std::string little_endian(uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

/// A safetensors file with this header text and data, whatever they are.
inline std::string container(const std::string& header, const std::string& data) {
  return little_endian(header.size()) + header + data;
}

struct TensorSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

inline TensorSpec floats_of(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {name, "F32", shape, bytes};
}

/// A tensor of zeros; `item`: bytes of one element.
inline TensorSpec zeros(const std::string& name, const std::string& dtype, size_t item,
                        const std::vector<int64_t>& shape) {
  size_t count = item;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  return {name, dtype, shape, std::string(count, '\0')};
}

/// A well-formed file of these tensors, in this order.
inline std::string safetensors(const std::vector<TensorSpec>& tensors, const std::string& metadata = "") {
  std::string header = "{" + metadata;
  std::string data;
  for (const TensorSpec& tensor : tensors) {
    std::string shape;
    for (const int64_t extent : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    header += std::string(header.size() > 1 ? "," : "") + "\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype +
              "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  return container(header + "}", data);
}

/// Runs `action`, which must throw Error with a message that holds every one of `parts`.
template <class Action>
void expect_error(Action&& action, const std::vector<std::string>& parts) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << message;
    }
    EXPECT_LT(message.size(), 1000u) << message;
    for (const char c : message) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20) << message;
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception than Error: " << error.what();
    return;
  }
  ADD_FAILURE() << "no error; expected one that names " << (parts.empty() ? "the cause" : parts.front());
}

}  // namespace ashlar::testing
