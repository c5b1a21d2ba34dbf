// SPDX-License-Identifier: Apache-2.0
#pragma once
// GGUF files as somebody else would have made them, right and wrong.

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::testing {

/// The parts of a file, each of which a test may spoil.
class GgufWriter {
 public:
  template <class T>
  static std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string string(const std::string& text) { return raw(uint64_t{text.size()}) + text; }

  /// A key of a type of the format with its value as bytes.
  GgufWriter& key(const std::string& name, uint32_t type, const std::string& value) {
    keys.push_back(string(name) + raw(type) + value);
    return *this;
  }
  GgufWriter& number(const std::string& name, uint32_t value) { return key(name, 4, raw(value)); }
  GgufWriter& number(const std::string& name, float value) { return key(name, 6, raw(value)); }
  GgufWriter& boolean(const std::string& name, bool value) { return key(name, 7, raw(uint8_t{value})); }
  GgufWriter& text(const std::string& name, const std::string& value) { return key(name, 8, string(value)); }
  GgufWriter& texts(const std::string& name, const std::vector<std::string>& values) {
    std::string bytes = raw(uint32_t{8}) + raw(uint64_t{values.size()});
    for (const std::string& value : values) bytes += string(value);
    return key(name, 9, bytes);
  }
  GgufWriter& integers(const std::string& name, const std::vector<int32_t>& values) {
    std::string bytes = raw(uint32_t{5}) + raw(uint64_t{values.size()});
    for (const int32_t value : values) bytes += raw(value);
    return key(name, 9, bytes);
  }

  /// `dimensions` in the file's order: that of neighbours first.
  GgufWriter& tensor(const std::string& name, const std::vector<uint64_t>& dimensions, uint32_t type,
                     const std::string& bytes) {
    info(name, dimensions, type, data.size());
    data += bytes;
    data.resize((data.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  void info(const std::string& name, const std::vector<uint64_t>& dimensions, uint32_t type, uint64_t offset) {
    std::string bytes = string(name) + raw(static_cast<uint32_t>(dimensions.size()));
    for (const uint64_t extent : dimensions) bytes += raw(extent);
    tensors.push_back(bytes + raw(type) + raw(offset));
  }

  std::string bytes() const {
    std::string out = magic + raw(version) + raw(tensors.size() + more_tensors) + raw(keys.size() + more_keys);
    for (const std::string& part : keys) out += part;
    for (const std::string& part : tensors) out += part;
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }

  size_t alignment = 32;
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t more_tensors = 0, more_keys = 0;  // than there are
  std::vector<std::string> keys, tensors;
  std::string data;
};

}  // namespace ashlar::testing
