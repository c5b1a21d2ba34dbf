// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/linear/weight_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bf16.h"
#include "base/check.h"
#include "base/content_hash.h"
#include "base/e4m3.h"
#include "device/weights/e4m3_rows.h"
#include "device/weights/group_rounding.h"

namespace ashlar::cpu {
namespace {

constexpr int32_t kBlocks = kPanelColumns / kBlockColumns;  // of a panel

// Whole floats or bf16s, `T` each, `together` neighbours of k side by side: [k / together][16 columns][together].
template <class T, int together>
struct Plain {
  static int64_t panel_bytes(int64_t k) { return kBlocks * block_bytes(k); }
  static int64_t block_bytes(int64_t k) {
    return round_up(k, kDepthMultiple) * kBlockColumns * static_cast<int64_t>(sizeof(T));
  }
  static int64_t place(int64_t i, int64_t column) {
    return i / together * (together * kBlockColumns) + column * together + i % together;
  }
  static void pack(const float* rows, int64_t stride, int32_t k, int32_t block, std::byte* panel) {
    auto* to = reinterpret_cast<T*>(panel + block * block_bytes(k));
    for (int64_t i = 0; i < k; i += together, to += together * kBlockColumns) {
      const int64_t n = std::min<int64_t>(together, k - i);
      for (int c = 0; c < kBlockColumns; ++c) {
        for (int64_t j = 0; j < n; ++j) narrow(rows[c * stride + i + j], to[c * together + j]);
      }
    }
  }
  static void read(const std::byte* panel, int32_t column, int32_t k, float scale, float* to) {
    const auto* from = reinterpret_cast<const T*>(panel + column / kBlockColumns * block_bytes(k));
    for (int64_t i = 0; i < k; ++i) to[i] = scale * to_float(from[place(i, column % kBlockColumns)]);
  }
  static void narrow(float value, float& to) { to = value; }
  static void narrow(float value, BFloat16& to) { to = to_bf16(value); }
};
using F32 = Plain<float, 1>;
using Bf16 = Plain<BFloat16, 2>;

// Integers in fours, and after the panel's blocks a scale for each column: value = scale * integer, |integer| <= 127,
// the scale such that the column's largest value is 127. Values that are not finite become 0.
struct Int8 {
  static constexpr float kLevels = 127;
  static int64_t block_bytes(int64_t k) { return round_up(k, 64) * kBlockColumns; }
  static int64_t place(int64_t i, int64_t column) { return i / 4 * (4 * kBlockColumns) + column * 4 + i % 4; }

  static void pack(const float* rows, int64_t stride, int32_t k, int32_t block, std::byte* panel) {
    constexpr float kWhole = 3 << 22;  // what is added to a small float and taken off again has no fraction
    const auto finite = [](float value) { return std::abs(value) <= std::numeric_limits<float>::max() ? value : 0; };
    auto* to = reinterpret_cast<int8_t*>(panel + block * block_bytes(k));
    auto* scales = reinterpret_cast<float*>(panel + kBlocks * block_bytes(k)) + int64_t{block} * kBlockColumns;
    for (int c = 0; c < kBlockColumns; ++c) {
      const float* values = rows + c * stride;
      float top = 0;
      for (int32_t i = 0; i < k; ++i) top = std::max(top, std::abs(finite(values[i])));
      scales[c] = top < 1e-30F ? 0 : top / kLevels;
      const float inverse = top < 1e-30F ? 0 : kLevels / top;
      for (int32_t i = 0; i < k; ++i) {
        to[place(i, c)] = static_cast<int8_t>(finite(values[i]) * inverse + kWhole - kWhole);
      }
    }
  }
  static void read(const std::byte* panel, int32_t column, int32_t k, float scale, float* to) {
    const auto* from = reinterpret_cast<const int8_t*>(panel + column / kBlockColumns * block_bytes(k));
    const float step = reinterpret_cast<const float*>(panel + kBlocks * block_bytes(k))[column];
    for (int64_t i = 0; i < k; ++i) {
      to[i] = scale * (step * static_cast<float>(from[place(i, column % kBlockColumns)]));
    }
  }
};

static_assert(kGroup == kRoundedTogether);

// See kernels.h: value = scale * integer, or lowest + scale * integer of 4 bits.
template <int32_t bits>
struct Groups {
  static int64_t block_bytes(int64_t k) { return round_up(k, 2 * kGroup) / (2 * kGroup) * grouped_pair_bytes(bits); }
  static int64_t panel_bytes(int64_t k) { return kBlocks * block_bytes(k); }

  // Where the group of k = i lies, and of its integers that of k = i and this column.
  static int64_t group_at(int64_t i) {
    return i / (2 * kGroup) * grouped_pair_bytes(bits) + i / kGroup % 2 * grouped_values_bytes(bits);
  }
  static int64_t place(int64_t i, int64_t column) {
    const int64_t quad = i % kGroup / 4 % (bits == 4 ? 4 : 8);
    return quad * (4 * kBlockColumns) + column * 4 + i % 4;
  }
  // The scales of both groups of a pair, the lowest values after them.
  template <class Bytes>
  static auto* scale(Bytes* block, int64_t i, int64_t column) {
    using Half = std::conditional_t<std::is_const_v<Bytes>, const Float16, Float16>;
    return reinterpret_cast<Half*>(block + i / (2 * kGroup) * grouped_pair_bytes(bits) +
                                   2 * grouped_values_bytes(bits)) +
           i / kGroup % 2 * kBlockColumns + column;
  }

  static void pack(const float* rows, int64_t stride, int32_t k, int32_t block, std::byte* panel) {
    std::byte* to = panel + block * block_bytes(k);
    for (int64_t i = 0; i < k; i += kGroup) {
      for (int64_t c = 0; c < kBlockColumns; ++c) {
        const auto n = static_cast<int32_t>(std::min<int64_t>(kGroup, k - i));
        const RoundedGroup group = round_group(rows + c * stride + i, n, bits);
        Float16* scale_at = scale(to, i, c);
        scale_at[0] = group.scale;
        if constexpr (bits == 4) scale_at[2 * kBlockColumns] = group.lowest;
        put_wholes(group.wholes, to + group_at(i) + c * 4);
      }
    }
  }
  // Quads of a column, which are a block's columns apart; of 4 bits each with the quad half a group later.
  static void put_wholes(const int8_t* wholes, std::byte* to) {
    constexpr int kQuads = kGroup / 4 * bits / 8;
    for (int quad = 0; quad < kQuads; ++quad, to += 4 * kBlockColumns) {
      uint32_t four, later;
      std::memcpy(&four, wholes + 4 * quad, sizeof(four));
      if constexpr (bits == 4) {
        std::memcpy(&later, wholes + 4 * (quad + kQuads), sizeof(later));
        four |= later << 4;
      }
      std::memcpy(to, &four, sizeof(four));
    }
  }
  static void read(const std::byte* panel, int32_t column, int32_t k, float scale_all, float* to) {
    const std::byte* from = panel + column / kBlockColumns * block_bytes(k);
    const int64_t c = column % kBlockColumns;
    for (int64_t i = 0; i < k; ++i) {
      const auto byte = static_cast<uint8_t>(from[group_at(i) + place(i, c)]);
      const Float16* scale_at = scale(from, i, c);
      const float step = to_float(scale_at[0]);
      if constexpr (bits == 4) {
        const int whole = i % kGroup < kGroup / 2 ? byte & 15 : byte >> 4;
        to[i] = scale_all * (to_float(scale_at[2 * kBlockColumns]) + step * static_cast<float>(whole));
      } else {
        to[i] = scale_all * (step * static_cast<float>(static_cast<int8_t>(byte)));
      }
    }
  }
};

static_assert(E4M3Group::kDepth == kE4M3Together);

// See kernels.h. A row on its way here is the scales of its groups, then its codes.
struct E4M3 {
  static constexpr float kWidened = 256;  // E4M3Group::scales
  static int64_t panel_bytes(int64_t k) { return kBlocks * e4m3_groups(k) * static_cast<int64_t>(sizeof(E4M3Group)); }
  static void read_row(const WeightSource& source, int64_t row, float* to) {
    read_e4m3_row(source, row, reinterpret_cast<uint8_t*>(to + e4m3_groups(source.cols())), to);
  }
  static void pack(const float* rows, int64_t stride, int32_t k, int32_t block, std::byte* panel) {
    auto* const groups = reinterpret_cast<E4M3Group*>(panel) + block * e4m3_groups(k);
    for (int c = 0; c < kBlockColumns; ++c, rows += stride) {
      const auto* codes = reinterpret_cast<const uint8_t*>(rows + e4m3_groups(k));
      for (int64_t g = 0; g < e4m3_groups(k); ++g) groups[g].scales[c] = rows[g] * kWidened;
      for (int64_t i = 0; i < k; ++i) groups[i / E4M3Group::kDepth].codes[i % E4M3Group::kDepth][c] = codes[i];
    }
  }
  static void read(const std::byte* panel, int32_t column, int32_t k, float scale, float* to) {
    const auto* groups = reinterpret_cast<const E4M3Group*>(panel) + column / kBlockColumns * e4m3_groups(k);
    const int32_t c = column % kBlockColumns;
    for (int64_t i = 0; i < k; ++i) {
      const E4M3Group& group = groups[i / E4M3Group::kDepth];
      const float number = e4m3_value(group.codes[i % E4M3Group::kDepth][c]) / kWidened;
      to[i] = scale * (number * group.scales[c]);
    }
  }
};

constexpr int32_t kAnyDepth = std::numeric_limits<int32_t>::max();
constexpr int32_t kInt8Depth = 1 << 17;  // 127 * 128 this many times is just below 2^31

// The first that suits is taken.
constexpr WeightFormat kFormats[] = {
    {"int4 groups",
     {},
     Numbers::kInt4,
     4,
     false,
     true,
     kAnyDepth,
     &Kernels::groups4,
     Groups<4>::panel_bytes,
     decode_row,
     Groups<4>::pack,
     Groups<4>::read},
    {"int8 groups",
     {},
     Numbers::kInt8,
     8,
     false,
     true,
     kAnyDepth,
     &Kernels::groups8,
     Groups<8>::panel_bytes,
     decode_row,
     Groups<8>::pack,
     Groups<8>::read},
    {"int8",
     {},
     Numbers::kInt8,
     8,
     true,
     true,
     kInt8Depth,
     &Kernels::quantised,
     quantised_panel_bytes,
     decode_row,
     Int8::pack,
     Int8::read},
    {"e4m3",
     {},
     Numbers::kE4M3,
     8,
     false,
     true,
     kAnyDepth,
     &Kernels::e4m3,
     E4M3::panel_bytes,
     E4M3::read_row,
     E4M3::pack,
     E4M3::read},
    {"bf16", DType::kBF16, Numbers::kWhole, 16, false, true, kAnyDepth, &Kernels::bf16, Bf16::panel_bytes, decode_row,
     Bf16::pack, Bf16::read},
    {"f32",
     {},
     Numbers::kWhole,
     32,
     false,
     false,
     kAnyDepth,
     &Kernels::f32,
     F32::panel_bytes,
     decode_row,
     F32::pack,
     F32::read},
};

// Random numbers, grids of 4 and of 8 bits, and equal numbers: the cases of rounding.
uint64_t find_mark(const WeightFormat& format) {
  constexpr int32_t kDepth = 4 * kGroup;
  std::vector<float> rows(size_t{kBlockColumns} * kDepth);
  uint32_t state = 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    state = state * 1664525 + 1013904223;
    const auto number = static_cast<float>(static_cast<int32_t>(state >> 8) - (1 << 23));
    const float grids[] = {number * 0x1p-24F, 0.25F + 0.0625F * static_cast<float>(state >> 28),
                           0.03125F * static_cast<float>(static_cast<int32_t>(state >> 24) - 127), 0.5F};
    rows[i] = grids[i / kDepth % 4];
  }
  const WeightSource source{{{"", Scheme::kF32, rows.data(), kBlockColumns, kDepth}}, {}};
  std::vector<float> read(rows.size());
  for (int64_t row = 0; row < kBlockColumns; ++row) format.read_row(source, row, read.data() + row * kDepth);
  std::vector<std::byte> panel(static_cast<size_t>(format.panel_bytes(kDepth)));
  for (int32_t block = 0; block < kBlocks; ++block) format.pack_block(read.data(), kDepth, kDepth, block, panel.data());
  return content_hash(panel, content_hash(std::as_bytes(std::span(format.name))));
}

}  // namespace

uint64_t mark_of(const WeightFormat& format) {
  static const auto kMarks = [] {
    std::array<uint64_t, std::size(kFormats)> marks{};
    for (size_t i = 0; i < marks.size(); ++i) marks[i] = find_mark(kFormats[i]);
    return marks;
  }();
  return kMarks.at(static_cast<size_t>(&format - kFormats));
}

const WeightFormat& format_for(const Kernels& kernels, DType precision, int64_t k, Products products, Numbers numbers) {
  const auto suits = [&](const WeightFormat& format) {
    return (format.numbers == Numbers::kWhole ||
            (format.numbers == numbers && format.for_drafts == (products == Products::kPropose))) &&
           (!format.may_round_rows || products != Products::kRoute) &&
           (!format.precision || format.precision == precision) && k <= format.max_k &&
           (kernels.*format.kernels).run != nullptr;
  };
  const WeightFormat* found = std::find_if(std::begin(kFormats), std::end(kFormats), suits);
  ASHLAR_CHECK(found != std::end(kFormats));
  return *found;
}

}  // namespace ashlar::cpu
