#pragma once
// Reads tests/data/tokenizer, which tests/tools/make_tokenizer_goldens.py makes with the Python package `tokenizers`.

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/tokenizer.h"

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

inline const std::vector<std::string>& golden_strings() {
  static const auto instance = read_json(data_path("strings.json")).get<std::vector<std::string>>();
  return instance;
}

/// crc32 (IEEE 802.3) over the little-endian bytes of the ids, as zlib.crc32 of struct.pack("<...i") gives it.
inline uint32_t crc_of_ids(const std::vector<int32_t>& ids) {
  uint32_t crc = ~0U;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      crc ^= (static_cast<uint32_t>(id) >> shift) & 0xFFU;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320U & (0U - (crc & 1U)));
    }
  }
  return ~crc;
}

/// The checksum at a place of a string of eight hexadecimal digits each.
inline uint32_t golden_crc(const std::string& sums, size_t index) {
  return static_cast<uint32_t>(std::stoul(sums.substr(8 * index, 8), nullptr, 16));
}

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
