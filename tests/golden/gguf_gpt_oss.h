// SPDX-License-Identifier: Apache-2.0
#pragma once
// The experts of a gpt-oss folder as llama.cpp's converter writes them: gates and ups, which lie by turns, apart, and
// matrices [experts, out, in]; those in MXFP4 keep their numbers, whose nibbles lie in another order.

#include <map>
#include <string>
#include <vector>

#include "gguf_writer.h"
#include "io/weights/safetensors.h"

namespace ashlar::testing {

/// Items of `item` bytes, of which [begin, begin + step, ...) in units of `item`.
inline std::string every(const std::string& bytes, size_t item, size_t begin, size_t step) {
  std::string out;
  for (size_t at = begin * item; at < bytes.size(); at += step * item) out += bytes.substr(at, item);
  return out;
}

/// Matrices [count, rows, cols] as [count, cols, rows].
inline std::string turned(const std::string& bytes, int64_t count, int64_t rows, int64_t cols, size_t item) {
  std::string out;
  for (int64_t m = 0; m < count; ++m) {
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = 0; r < rows; ++r)
        out += bytes.substr(static_cast<size_t>((m * rows + r) * cols + c) * item, item);
    }
  }
  return out;
}

/// Blocks of 16 bytes (numbers 2i and 2i + 1 in byte i) after their scales, as blocks of 17: numbers i and i + 16.
inline std::string mxfp4_blocks(const std::string& blocks, const std::string& scales) {
  std::string out;
  for (size_t b = 0; b < scales.size(); ++b) {
    const auto number = [&](size_t i) {
      return static_cast<unsigned char>(blocks[b * 16 + i / 2]) >> (i % 2 == 0 ? 0 : 4) & 15;
    };
    out += scales[b];
    for (size_t i = 0; i < 16; ++i) out += static_cast<char>(number(i) | number(i + 16) << 4);
  }
  return out;
}

inline void write_gpt_oss_experts(const std::filesystem::path& folder, GgufWriter& file) {
  struct Stored {
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::map<std::string, Stored> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors" || entry.path().filename() == "goldens.safetensors") continue;
    const SafetensorsFile stored(entry.path());
    for (const auto& [name, tensor] : stored.tensors()) {
      all[name] = {tensor.shape, {reinterpret_cast<const char*>(tensor.data), tensor.bytes}};
    }
  }
  constexpr uint32_t kBf16 = 30, kMxfp4 = 39;
  for (const auto& [name, tensor] : all) {
    const size_t at = name.find(".mlp.experts.");
    if (at == std::string::npos) continue;
    const std::string layer = "blk." + name.substr(13, at - 13) + ".", part = name.substr(at + 13);
    const auto experts = static_cast<uint64_t>(tensor.shape[0]);
    const bool down = part.starts_with("down");
    // Rows of `bytes` each, [experts, rows, ...], of one kind or of both by turns.
    const auto put = [&](const std::string& kind, const std::vector<uint64_t>& dimensions, uint32_t type,
                         const std::string& rows, size_t bytes) {
      if (down) return void(file.tensor(layer + "ffn_down_exps" + kind, dimensions, type, rows));
      std::vector<uint64_t> half = dimensions;
      half[half.size() - 2] /= 2;
      file.tensor(layer + "ffn_gate_exps" + kind, half, type, every(rows, bytes, 0, 2));
      file.tensor(layer + "ffn_up_exps" + kind, half, type, every(rows, bytes, 1, 2));
    };
    if (part.ends_with("_bias")) {
      put(".bias", {static_cast<uint64_t>(tensor.shape[1]), experts}, kBf16, tensor.bytes, 2);
    } else if (part.ends_with("_blocks")) {
      const std::string scales = all.at(name.substr(0, name.size() - 6) + "scales").bytes;
      const auto rows = static_cast<uint64_t>(tensor.shape[1]), groups = static_cast<uint64_t>(tensor.shape[2]);
      put(".weight", {32 * groups, rows, experts}, kMxfp4, mxfp4_blocks(tensor.bytes, scales), 17 * groups);
    } else if (!part.ends_with("_scales")) {
      const auto in = static_cast<uint64_t>(tensor.shape[1]), out = static_cast<uint64_t>(tensor.shape[2]);
      put(".weight", {in, out, experts}, kBf16,
          turned(tensor.bytes, tensor.shape[0], tensor.shape[1], tensor.shape[2], 2), 2 * in);
    }
  }
}

}  // namespace ashlar::testing
