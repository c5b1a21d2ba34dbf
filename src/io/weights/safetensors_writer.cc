// SPDX-License-Identifier: Apache-2.0
#include "io/weights/safetensors_writer.h"

#include <algorithm>
#include <bit>

#include "base/bf16.h"
#include "base/check.h"
#include "base/error.h"
#include "io/durable_file.h"
#include "io/json.h"

namespace ashlar {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kPiece = 1 << 16;  // numbers that are rounded at a time

size_t bytes_of(const TensorToWrite& tensor) {
  return tensor.values.size() * (tensor.type == TensorToWrite::Type::kF32 ? sizeof(float) : sizeof(BFloat16));
}

// The header, whose length is a multiple of 8 so that the data is aligned.
std::string header_of(std::span<const TensorToWrite> tensors, const std::map<std::string, std::string>& metadata,
                      const std::filesystem::path& path) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    if (header.contains(tensor.name))
      throw Error("safetensors", path.string() + ": two tensors are named " + tensor.name);
    size_t n = 1;
    for (const int64_t size : tensor.shape) n *= static_cast<size_t>(size);
    ASHLAR_CHECK_EQ(n, tensor.values.size());
    const size_t end = begin + bytes_of(tensor);
    header[tensor.name] = {{"dtype", tensor.type == TensorToWrite::Type::kF32 ? "F32" : "BF16"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void write_rounded(DurableFile& file, std::span<const float> values) {
  std::vector<BFloat16> piece;
  while (!values.empty()) {
    const size_t n = std::min(values.size(), kPiece);
    piece.resize(n);
    std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n), piece.begin(), to_bf16);
    file.write(std::as_bytes(std::span(piece)));
    values = values.subspan(n);
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata, path);
  const uint64_t size = header.size();
  DurableFile file(path);
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(header);
  for (const TensorToWrite& tensor : tensors) {
    if (tensor.type == TensorToWrite::Type::kF32) {
      file.write(std::as_bytes(tensor.values));
    } else {
      write_rounded(file, tensor.values);
    }
  }
  file.commit();
}

}  // namespace ashlar
