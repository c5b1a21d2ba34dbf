// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/attention/coded_pages.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/attention/decode_codes.h"

namespace ashlar::cpu {

std::byte* CodedPages::slot(int32_t slot, int32_t kv_head, bool value) const {
  const int64_t vector = shape_.head_dim + static_cast<int64_t>(sizeof(float));
  // Eight slots of bytes are no more than a page of 16 tokens at half a byte.
  const int64_t heads =
      int64_t{slot % kScratchSlotsPerPage} * 2 * shape_.n_kv_heads + (value ? shape_.n_kv_heads : 0) + kv_head;
  return plane_.base + slot / kScratchSlotsPerPage * plane_.page_stride + heads * vector;
}

void CodedPages::write_slot(const CodedVector& from, int32_t to, int32_t kv_head, bool value) const {
  std::byte* at = slot(to, kv_head, value);
  std::memcpy(at, from.codes, static_cast<size_t>(shape_.head_dim));
  std::memcpy(at + shape_.head_dim, &from.scale, sizeof(float));
}

CodedVector CodedPages::read_slot(int32_t from, int32_t kv_head, bool value) const {
  CodedVector vector;
  const std::byte* at = slot(from, kv_head, value);
  std::memcpy(vector.codes, at, static_cast<size_t>(shape_.head_dim));
  std::memcpy(&vector.scale, at + shape_.head_dim, sizeof(float));
  return vector;
}

void CodedPages::write(const CodedVector& from, const int32_t* pages, int32_t position, int32_t kv_head,
                       bool value) const {
  put(from, part(pages[position / kPageTokens], kv_head, value), position % kPageTokens, value);
}

void CodedPages::put(const CodedVector& from, std::byte* part, int32_t token, bool value) const {
  const int32_t d = shape_.head_dim;
  auto* codes = reinterpret_cast<uint8_t*>(part);
  const int32_t bits = codec(value).bits();
  if (!value && bits == 6) {
    uint8_t* upper = codes + int64_t{d / 2} * kPageTokens;
    const auto biased = [&](int32_t i) { return (from.codes[i] + 32) & 63; };
    for (int32_t i = 0; i < d; i += 4) {
      const int32_t four[] = {biased(i), biased(i + 1), biased(i + 2), biased(i + 3)};
      const int64_t pair = int64_t{i / 2} * kPageTokens + token;
      codes[pair] = static_cast<uint8_t>((four[0] & 15) | (four[1] & 15) << 4);
      codes[pair + kPageTokens] = static_cast<uint8_t>((four[2] & 15) | (four[3] & 15) << 4);
      upper[int64_t{i / 4} * kPageTokens + token] =
          static_cast<uint8_t>(four[0] >> 4 | four[1] >> 4 << 2 | four[2] >> 4 << 4 | four[3] >> 4 << 6);
    }
  } else if (!value) {
    for (int32_t i = 0; i < d; i += 2) {
      const int64_t pair = int64_t{i / 2} * kPageTokens + token;
      codes[2 * pair] = from.codes[i];
      codes[2 * pair + 1] = from.codes[i + 1];
    }
  } else if (bits == 4) {
    for (int32_t i = 0; i < d / 2; ++i) {
      const int32_t low = i / 8 * 16 + i % 8;
      codes[int64_t{token} * d / 2 + i] = static_cast<uint8_t>(from.codes[low] | from.codes[low + 8] << 4);
    }
  } else {
    std::memcpy(codes + int64_t{token} * d, from.codes, static_cast<size_t>(d));
  }
  std::memcpy(part + code_bytes(codec(value), shape_) + token * sizeof(float), &from.scale, sizeof(float));
}

void CodedPages::read_segment(const int32_t* page_table, const BranchTable& branch, int32_t kv_head, int32_t segment,
                              int32_t first, int32_t last, uint16_t* to) const {
  constexpr int32_t kPages = kSegmentKeys / kPageTokens;
  const int32_t d = shape_.head_dim;
  const int64_t keys = int64_t{d} * kPageTokens;
  const int64_t values = int64_t{padded_head_dim(d)} * kPageTokens;
  std::byte copy[kMaxHeadDim * kPageTokens + kPageTokens * sizeof(float)];
  for (int32_t i = first; i < last; ++i) {
    const int32_t page = segment * kPages + i;
    const int32_t begin = std::max(page * kPageTokens, branch.first);
    const int32_t end = std::min((page + 1) * kPageTokens, branch.end());
    for (const bool value : {false, true}) {
      const std::byte* from = part(page_table[page], kv_head, value);
      if (begin < end) {
        std::memcpy(copy, from, static_cast<size_t>(part_bytes(codec(value), shape_)));
        for (int32_t p = begin; p < end; ++p) {
          put(read_slot(branch.slots[p - branch.first], kv_head, value), copy, p % kPageTokens, value);
        }
        from = copy;
      }
      float scales[kPageTokens];
      std::memcpy(scales, from + code_bytes(codec(value), shape_), sizeof(scales));
      const CodedTokens tokens = {reinterpret_cast<const uint8_t*>(from), scales, d, codec(value).levels()};
      uint16_t* out = to + i * (keys + values);
      const int32_t bits = codec(value).bits();
      value ? decode_values(tokens, bits, out + keys) : decode_keys(tokens, bits, out);
    }
  }
}

}  // namespace ashlar::cpu
