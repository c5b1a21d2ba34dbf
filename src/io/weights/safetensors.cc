// SPDX-License-Identifier: Apache-2.0
#include "io/weights/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr size_t kMaxRank = 8;

size_t dtype_bytes(const std::string& dtype) {
  static const std::map<std::string, size_t> kSizes = {
      {"BOOL", 1}, {"U8", 1},   {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"U16", 2}, {"I16", 2},
      {"F16", 2},  {"BF16", 2}, {"U32", 4}, {"I32", 4},     {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
  const auto it = kSizes.find(dtype);
  return it == kSizes.end() ? 0 : it->second;
}

[[noreturn]] void fail_safetensors(const std::filesystem::path& path, const std::string& what) {
  throw Error("safetensors", path.string() + ": " + what);
}

uint64_t read_header_length(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  if (bytes.size() < 8)
    fail_safetensors(path, "has " + std::to_string(bytes.size()) + " bytes; a safetensors file has at least 8");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxHeader) {
    fail_safetensors(path, "its header claims " + std::to_string(length) + " bytes; at most " +
                               std::to_string(kMaxHeader) + " are read (is this a safetensors file?)");
  }
  if (length > bytes.size() - 8) {
    fail_safetensors(path, "its header claims " + std::to_string(length) + " bytes but only " +
                               std::to_string(bytes.size() - 8) + " follow (is the file truncated?)");
  }
  return length;
}

StoredTensor read_entry(const std::filesystem::path& path, const std::string& name, const Json& entry,
                        std::span<const std::byte> data) {
  const JsonFields fields(entry, path.string() + ": tensor " + for_message(name), "safetensors");
  StoredTensor tensor;
  tensor.name = name;
  tensor.file = path.string();
  tensor.dtype = fields.string("dtype");
  const size_t item = dtype_bytes(tensor.dtype);
  if (item == 0) fields.fail("dtype", "a known dtype (F32, BF16, F16, I64, ...)");

  const Json& shape = fields.raw("shape");
  const Json& offsets = fields.raw("data_offsets");
  if (!shape.is_array() || shape.size() > kMaxRank) fields.fail("shape", "at most 8 dimensions");
  uint64_t expected = item;
  for (const Json& extent : shape) {
    if (!extent.is_number_unsigned()) fields.fail("shape", "non-negative integers");
    const auto size = extent.get<uint64_t>();
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        (size != 0 && expected > std::numeric_limits<uint64_t>::max() / size)) {
      fields.fail("shape", "a size that fits into 64 bits");
    }
    expected *= size;
    tensor.shape.push_back(static_cast<int64_t>(size));
  }
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    fields.fail("data_offsets", "two non-negative integers");
  }
  const auto begin = offsets[0].get<uint64_t>();
  const auto end = offsets[1].get<uint64_t>();
  if (begin > end || end > data.size()) {
    fields.fail("data_offsets", "begin <= end <= " + std::to_string(data.size()) + " (is the file truncated?)");
  }
  if (end - begin != expected) {
    fields.fail("data_offsets", std::to_string(expected) + " bytes for " + tensor.describe());
  }
  tensor.data = data.data() + begin;
  tensor.bytes = end - begin;
  return tensor;
}

// Tensors must tile the data section: overlaps would alias weights, gaps hide bytes that are never read.
void check_tiling(const std::filesystem::path& path, const std::map<std::string, StoredTensor>& tensors,
                  std::span<const std::byte> data) {
  std::vector<const StoredTensor*> order;
  for (const auto& [name, tensor] : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return a->data != b->data ? a->data < b->data : a->bytes < b->bytes;
  });
  const std::byte* at = data.data();
  for (const StoredTensor* tensor : order) {
    if (tensor->data < at)
      fail_safetensors(path, "tensor " + for_message(tensor->name) + " overlaps the one before it");
    if (tensor->data > at) fail_safetensors(path, "there are bytes of no tensor before " + for_message(tensor->name));
    at = tensor->data + tensor->bytes;
  }
  if (at != data.data() + data.size()) {
    fail_safetensors(path,
                     std::to_string(data.data() + data.size() - at) + " bytes after the last tensor belong to none");
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  const uint64_t length = read_header_length(path, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  if (!text.starts_with('{')) fail_safetensors(path, "its header does not start with { (is this a safetensors file?)");
  const Json header = parse_json(text, path.string() + " (header)");
  const std::span<const std::byte> data = bytes.subspan(8 + length);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) fail_safetensors(path, "__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) fail_safetensors(path, "__metadata__." + for_message(key) + " is not a string");
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    tensors_.emplace(name, read_entry(path, name, entry, data));
  }
  check_tiling(path, tensors_, data);
  check_whole();
}

}  // namespace ashlar
