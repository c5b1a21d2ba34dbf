// SPDX-License-Identifier: Apache-2.0
#include "device/weights/source_hash.h"

#include <span>
#include <vector>

#include "base/content_hash.h"

namespace ashlar {

uint64_t hash_rows(const WeightPart& part, int64_t begin, int64_t end) {
  uint64_t hash = content_hash(std::as_bytes(std::span(name_of(part.scheme))), static_cast<uint64_t>(part.cols));
  const StoredRows& values = part.values;
  if (part.scaled != nullptr) {
    std::vector<float> decoded(static_cast<size_t>(part.cols));
    for (int64_t row = begin; row < end; ++row) {
      decode_rows(part, row, row + 1, decoded.data());
      hash = content_hash(std::as_bytes(std::span(decoded)), hash);
    }
    return hash;
  }
  const int64_t row_bytes = part.cols / values.group * values.group_bytes;
  if (values.interleaved.head == 0 && values.stride == row_bytes) {  // one after the other
    return content_hash({values.at(begin, 0), static_cast<size_t>((end - begin) * row_bytes)}, hash);
  }
  for (int64_t row = begin; row < end; ++row) {
    hash = content_hash({values.at(row, 0), static_cast<size_t>(row_bytes)}, hash);
  }
  return hash;
}

}  // namespace ashlar
