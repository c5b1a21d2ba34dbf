// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads tests/data/tokenizer, which tools/goldens/make_tokenizer_goldens.py makes with the Python package `tokenizers`.

#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/json.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::test {

inline std::string data_path(const std::string& name) { return std::string(ASHLAR_TEST_DATA) + "/tokenizer/" + name; }

inline std::string tokenizer_path(const std::string& name) {
  return name == "pebble" ? std::string(ASHLAR_SOURCE_DIR) + "/models/pebble-11m/tokenizer.json"
                          : data_path(name + ".json");
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return nlohmann::json::parse(file);
}

inline const nlohmann::json& goldens() {
  static const nlohmann::json instance = read_json(data_path("goldens.json"));
  return instance;
}

/// A string, or [part, count] for one that repeats a part, or [part, count, end].
inline const std::vector<std::string>& golden_strings() {
  static const auto instance = [] {
    std::vector<std::string> strings;
    for (const nlohmann::json& entry : read_json(data_path("strings.json"))) {
      std::string& text = strings.emplace_back();
      const auto part = (entry.is_array() ? entry[0] : entry).get<std::string>();
      const int count = entry.is_array() ? entry[1].get<int>() : 1;
      for (int i = 0; i < count; ++i) text += part;
      if (entry.is_array() && entry.size() > 2) text += entry[2].get<std::string>();
    }
    return strings;
  }();
  return instance;
}

/// crc32 (IEEE 802.3) over the little-endian bytes of ids, as zlib.crc32 of struct.pack("<...i") gives it.
class Crc {
 public:
  void add(const std::vector<int32_t>& ids) {
    for (const int32_t id : ids) {
      for (int shift = 0; shift < 32; shift += 8) {
        state_ = (state_ >> 8) ^ of_bytes()[(state_ ^ (static_cast<uint32_t>(id) >> shift)) & 0xFFU];
      }
    }
  }
  uint32_t value() const { return ~state_; }

 private:
  static const std::array<uint32_t, 256>& of_bytes() {
    static const auto table = [] {
      std::array<uint32_t, 256> all{};
      for (uint32_t byte = 0; byte < all.size(); ++byte) {
        all[byte] = byte;
        for (int bit = 0; bit < 8; ++bit) all[byte] = (all[byte] >> 1) ^ (0xEDB88320U & (0U - (all[byte] & 1U)));
      }
      return all;
    }();
    return table;
  }

  uint32_t state_ = ~0U;
};

/// Checksums of lists of ids: two hexadecimal digits for each list, to find where, and eight (a crc32) over all.
class GoldenSums {
 public:
  explicit GoldenSums(std::string sums) : sums_(std::move(sums)) {
    if (sums_.size() < 8 || sums_.size() % 2 != 0) throw std::runtime_error("checksums of a length that cannot be");
  }

  size_t size() const { return sums_.size() / 2 - 4; }

  bool matches(size_t index, const std::vector<int32_t>& ids) const {
    Crc crc;
    crc.add(ids);
    return (crc.value() & 0xFFU) == number(2 * index, 2);
  }

  uint32_t of_all() const { return number(sums_.size() - 8, 8); }

 private:
  uint32_t number(size_t at, size_t digits) const {
    return static_cast<uint32_t>(std::stoul(sums_.substr(at, digits), nullptr, 16));
  }
  std::string sums_;
};

inline std::string shown(const std::vector<int32_t>& ids) {
  std::ostringstream out;
  for (const int32_t id : ids) out << id << ' ';
  return out.str();
}

inline std::string hex(const std::string& text) {
  static const char* digits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

}  // namespace ashlar::test
