// SPDX-License-Identifier: Apache-2.0
#include "golden/seeded_checkpoint.h"

#include <stdlib.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "base/bf16.h"

namespace ashlar::testing {
namespace {

uint64_t splitmix64(uint64_t state) {
  uint64_t z = state + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// To nearest even; |value| below 65504. Steps of a half are 2^(exponent - 10), and 2^-24 below 2^-14.
uint16_t to_f16(float value) {
  const float magnitude = std::fabs(value);
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -14, -14);
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A normal number has 1024 steps or more and a carry into the exponent is what rounding up means.
  const uint32_t bits = (static_cast<uint32_t>(exponent + 14) << 10) + steps;
  return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000u : 0u));
}

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append(std::string& bytes, const std::string& dtype, float value) {
  if (dtype == "F32") return append(bytes, value);
  if (dtype == "BF16") return append(bytes, to_bf16(value).bits);
  if (dtype == "F16") return append(bytes, to_f16(value));
  throw std::runtime_error("tensors.json: noise has dtype F32, BF16 or F16, found " + dtype);
}

void append(std::string& bytes, const std::string& dtype, int64_t value) {
  if (dtype == "I64") return append(bytes, value);
  if (dtype == "I32") return append(bytes, static_cast<int32_t>(value));
  if (dtype == "U8") return append(bytes, static_cast<uint8_t>(value));
  if (dtype == "BOOL") return append(bytes, static_cast<uint8_t>(value != 0));
  throw std::runtime_error("tensors.json: values have dtype I64, I32, U8 or BOOL, found " + dtype);
}

// Integers and small floats: the upper bits of each number of the generator.
std::string random_bits(const std::string& dtype, uint64_t key, uint64_t count) {
  const size_t item = dtype == "I32" ? 4 : 1;
  std::string bytes;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t value = splitmix64(key + i) >> (64 - 8 * item);
    const bool is_nan = dtype == "F8_E4M3" && (value & 0x7F) == 0x7F;
    if (item == 4) append(bytes, static_cast<uint32_t>(value));
    if (item == 1) append(bytes, static_cast<uint8_t>(is_nan ? value ^ 1 : value));
  }
  return bytes;
}

// Returns the bytes of all tensors.
size_t write_safetensors(const std::filesystem::path& path, const Json& tensors, uint64_t seed) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const Json& tensor : tensors) {
    const size_t begin = data.size();
    data += seeded_bytes(tensor, seed);
    header[tensor["name"].get<std::string>()] = {
        {"dtype", tensor["dtype"]}, {"shape", tensor["shape"]}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string size;
  append(size, static_cast<uint64_t>(text.size()));
  std::ofstream file(path, std::ios::binary);
  file << size << text << data;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
  return data.size();
}

}  // namespace

uint64_t fnv1a64(std::span<const std::byte> bytes) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const std::byte byte : bytes) value = (value ^ static_cast<uint64_t>(byte)) * 0x100000001B3u;
  return value;
}

std::string seeded_bytes(const Json& tensor, uint64_t seed) {
  const auto dtype = tensor["dtype"].get<std::string>();
  std::string bytes;
  if (tensor.contains("values")) {
    for (const Json& value : tensor["values"]) append(bytes, dtype, value.get<int64_t>());
    return bytes;
  }
  const auto name = tensor[tensor.contains("as") ? "as" : "name"].get<std::string>();
  const uint64_t key = fnv1a64(std::as_bytes(std::span(name))) ^ seed;
  uint64_t count = 1;
  for (const Json& size : tensor["shape"]) count *= size.get<uint64_t>();
  if (!tensor.contains("scale")) return random_bits(dtype, key, count);
  const auto scale = tensor["scale"].get<float>();
  const auto offset = tensor["offset"].get<float>();
  for (uint64_t i = 0; i < count; ++i) {
    const float uniform = static_cast<float>(splitmix64(key + i) >> 40) * 0x1p-23f - 1.0f;  // exact
    append(bytes, dtype, uniform * scale + offset);
  }
  return bytes;
}

SeededCheckpoint::SeededCheckpoint(const std::filesystem::path& description) : folder_(description) {
  namespace fs = std::filesystem;
  if (!fs::exists(description / "tensors.json")) return;
  std::string name = (fs::temp_directory_path() / "ashlar_seeded_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
  folder_ = name;
  temporary_ = true;
  for (const auto& entry : fs::directory_iterator(description)) {
    if (entry.path().filename() != "tensors.json") fs::copy(entry.path(), folder_);
  }
  const Json json = read_json_file(description / "tensors.json");
  Json weight_map = Json::object();
  size_t total = 0;
  for (const auto& [file, tensors] : json["files"].items()) {
    total += write_safetensors(folder_ / file, tensors, json["seed"].get<uint64_t>());
    for (const Json& tensor : tensors) weight_map[tensor["name"].get<std::string>()] = file;
  }
  if (json.contains("index")) {
    const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
    std::ofstream(folder_ / json["index"].get<std::string>()) << index.dump();
  }
}

SeededCheckpoint::~SeededCheckpoint() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace ashlar::testing
