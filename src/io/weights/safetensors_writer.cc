// SPDX-License-Identifier: Apache-2.0
#include "io/weights/safetensors_writer.h"

#include <algorithm>
#include <bit>

#include "base/bf16.h"
#include "base/check.h"
#include "base/content_hash.h"
#include "base/error.h"
#include "io/durable_file.h"
#include "io/json.h"
#include "io/weights/hashed_file.h"

namespace ashlar {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kPiece = 1 << 16;  // numbers that are rounded at a time

using Sink = std::function<void(std::span<const std::byte> bytes)>;

size_t count_of(const TensorToWrite& tensor) {
  size_t n = 1;
  for (const int64_t size : tensor.shape) n *= static_cast<size_t>(size);
  return n;
}

struct StoredType {
  const char* name;
  size_t bytes;
};

StoredType stored_type(TensorToWrite::Type type) {
  switch (type) {
    case TensorToWrite::Type::kF32:
      return {"F32", sizeof(float)};
    case TensorToWrite::Type::kBF16:
      return {"BF16", sizeof(BFloat16)};
    case TensorToWrite::Type::kI64:
      return {"I64", sizeof(int64_t)};
    case TensorToWrite::Type::kBool:
      break;
  }
  return {"BOOL", 1};
}

bool is_of_integers(const TensorToWrite& tensor) {
  return tensor.type == TensorToWrite::Type::kI64 || tensor.type == TensorToWrite::Type::kBool;
}

// Its length is a multiple of 8 so that the data is aligned.
std::string header_of(std::span<const TensorToWrite> tensors, const std::map<std::string, std::string>& metadata,
                      const std::filesystem::path& path) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    if (header.contains(tensor.name))
      throw Error("safetensors", path.string() + ": two tensors are named " + tensor.name);
    if (tensor.fill == nullptr) {
      ASHLAR_CHECK_EQ(count_of(tensor), is_of_integers(tensor) ? tensor.integers.size() : tensor.values.size());
    }
    const StoredType type = stored_type(tensor.type);
    const size_t end = begin + count_of(tensor) * type.bytes;
    header[tensor.name] = {{"dtype", type.name}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void write_rounded(const Sink& out, std::span<const float> values) {
  std::vector<BFloat16> piece;
  while (!values.empty()) {
    const size_t n = std::min(values.size(), kPiece);
    piece.resize(n);
    std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n), piece.begin(), to_bf16);
    out(std::as_bytes(std::span(piece)));
    values = values.subspan(n);
  }
}

void write_values(const Sink& out, TensorToWrite::Type type, std::span<const float> values) {
  if (type == TensorToWrite::Type::kF32) {
    out(std::as_bytes(values));
  } else {
    write_rounded(out, values);
  }
}

void write_integers(const Sink& out, const TensorToWrite& tensor) {
  if (tensor.type == TensorToWrite::Type::kI64) return out(std::as_bytes(tensor.integers));
  std::vector<uint8_t> truths;
  for (const int64_t value : tensor.integers) truths.push_back(value != 0 ? 1 : 0);
  out(std::as_bytes(std::span(truths)));
}

void write_filled(const Sink& out, const TensorToWrite& tensor) {
  const int64_t cols = std::max<int64_t>(1, tensor.shape.back());
  const int64_t all = static_cast<int64_t>(count_of(tensor)) / cols;
  const int64_t together = std::max<int64_t>(1, static_cast<int64_t>(kPiece) / cols);
  std::vector<float> piece;
  for (int64_t row = 0; row < all; row += together) {
    const int64_t rows = std::min(together, all - row);
    piece.resize(static_cast<size_t>(rows * cols));
    tensor.fill(row, rows, piece.data());
    write_values(out, tensor.type, piece);
  }
}

void write_tensors(const Sink& out, std::span<const TensorToWrite> tensors) {
  for (const TensorToWrite& tensor : tensors) {
    if (tensor.fill != nullptr) {
      write_filled(out, tensor);
    } else if (is_of_integers(tensor)) {
      write_integers(out, tensor);
    } else {
      write_values(out, tensor.type, tensor.values);
    }
  }
}

}  // namespace

std::string safetensors_head(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                             const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata, path);
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header;
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  DurableFile file(path);
  file.write(safetensors_head(path, tensors, metadata));
  write_tensors([&](std::span<const std::byte> bytes) { file.write(bytes); }, tensors);
  file.commit();
}

void write_hashed_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                              std::map<std::string, std::string> metadata) {
  ContentHasher hasher(hash_of_metadata(metadata));
  write_tensors([&](std::span<const std::byte> bytes) { hasher.add(bytes); }, tensors);
  metadata[kContentHash] = hex_of(hasher.hash());
  write_safetensors(path, tensors, metadata);
}

}  // namespace ashlar
