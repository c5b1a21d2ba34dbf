// SPDX-License-Identifier: Apache-2.0
#include "io/weights/hashed_file.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/content_hash.h"

namespace ashlar {

uint64_t hash_of_metadata(const std::map<std::string, std::string>& metadata) {
  std::string all;
  for (const auto& [key, value] : metadata) {
    if (key != kContentHash) all += std::to_string(key.size()) + " " + std::to_string(value.size()) + key + value;
  }
  return content_hash(std::as_bytes(std::span(all)));
}

std::string damage_of(const SafetensorsFile& file) {
  const auto expected = file.metadata().find(kContentHash);
  if (expected == file.metadata().end()) return {};
  // Tensors lie one after another, which was checked when the file was opened.
  const std::byte* begin = nullptr;
  size_t size = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    begin = begin == nullptr ? tensor.data : std::min(begin, tensor.data);
    size += tensor.bytes;
  }
  const std::string found = hex_of(content_hash({begin, size}, hash_of_metadata(file.metadata())));
  file.check_whole();
  if (found == expected->second) return {};
  return "is damaged: what it holds has the hash " + found + "; expected " + expected->second +
         ", as when it was written";
}

}  // namespace ashlar
