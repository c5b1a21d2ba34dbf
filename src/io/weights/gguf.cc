// SPDX-License-Identifier: Apache-2.0
#include "io/weights/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "base/error.h"
#include "io/weights/gguf_reader.h"

namespace ashlar {
namespace {

constexpr uint64_t kMaxKeys = 10'000;      // files in use have less than a hundred
constexpr uint64_t kMaxTensors = 1 << 20;  // one a projection of each expert would be 50,000
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kMaxGgufName = 1 << 16;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr int kMaxArrayDepth = 8;  // of arrays in arrays

bool is_integer(GgufType type) {
  return type != GgufType::kF32 && type != GgufType::kF64 && type != GgufType::kBool && type != GgufType::kString &&
         type != GgufType::kArray;
}

Json integer_at(GgufType type, const std::byte* from) {
  const auto load = [from](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (type) {
    case GgufType::kU8:
      return load(uint8_t{});
    case GgufType::kI8:
      return load(int8_t{});
    case GgufType::kU16:
      return load(uint16_t{});
    case GgufType::kI16:
      return load(int16_t{});
    case GgufType::kU32:
      return load(uint32_t{});
    case GgufType::kI32:
      return load(int32_t{});
    case GgufType::kU64:
      return load(uint64_t{});
    default:
      return load(int64_t{});
  }
}

void check_header(const GgufReader& from, std::string_view magic, uint32_t version) {
  if (magic != "GGUF") from.fail("begins with \"" + for_message(magic) + "\", expected GGUF (is this a GGUF file?)");
  if ((version & 0xFFFF) == 0) {
    from.fail("is of a big-endian machine (version " + std::to_string(version >> 24) +
              "); expected a little-endian file: convert it with gguf-convert-endian of the Python package gguf");
  }
  if (version != 2 && version != 3) {
    from.fail("is of version " + std::to_string(version) + " of the format, expected 2 or 3; convert the model again");
  }
}

// Where two tensors share bytes: views of each other would be read as if they were weights of their own.
void check_overlaps(const GgufReader& from, const std::map<std::string, StoredTensor>& tensors) {
  std::vector<const StoredTensor*> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) { return a->data < b->data; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->data + order[i - 1]->bytes <= order[i]->data) continue;
    from.fail("tensor " + for_message(order[i]->name) + " begins within " + for_message(order[i - 1]->name) +
              "; expected tensors one after the other");
  }
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) {
  std::error_code error;
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path, error);
}

/// One pass over a file.
class GgufFile::Reader {
 public:
  explicit Reader(GgufFile& file) : file_(file), in_(file.path(), file.file_.bytes()) {}

  void read() {
    const std::string_view magic = in_.text(4, "the format's name");
    check_header(in_, magic, in_.number<uint32_t>("the version"));
    const uint64_t n_tensors = in_.number<uint64_t>("the number of tensors");
    const uint64_t n_keys = in_.number<uint64_t>("the number of keys");
    in_.check_count("tensors", n_tensors, kMaxTensors, 24);
    in_.check_count("keys", n_keys, kMaxKeys, 13);
    std::set<std::string> keys;
    for (uint64_t i = 0; i < n_keys; ++i) {
      std::string key(in_.string("a key", kMaxGgufName));
      if (key.empty()) in_.fail("key " + std::to_string(i) + " is empty");
      if (!keys.insert(key).second) in_.fail("the key " + for_message(key) + " is there twice");
      read_value(key);
    }
    std::vector<std::pair<StoredTensor, uint64_t>> tensors;
    for (uint64_t i = 0; i < n_tensors; ++i) tensors.push_back(read_tensor());
    place(std::move(tensors));
  }

 private:
  void read_value(const std::string& key) {
    in_.of("key " + for_message(key));
    const auto type = GgufType{in_.number<uint32_t>("its type")};
    switch (type) {
      case GgufType::kString:
        file_.metadata_[key] = std::string(in_.string("its text", std::numeric_limits<uint64_t>::max()));
        break;
      case GgufType::kArray:
        file_.arrays_.emplace(key, read_array(0));
        break;
      case GgufType::kBool: {
        const auto value = in_.number<uint8_t>("its value");
        if (value > 1) in_.fail("found " + std::to_string(value) + " as a boolean, expected 0 or 1");
        file_.metadata_[key] = value == 1;
        break;
      }
      case GgufType::kF32:
        file_.metadata_[key] = in_.number<float>("its value");
        break;
      case GgufType::kF64:
        file_.metadata_[key] = in_.number<double>("its value");
        break;
      default:
        file_.metadata_[key] = integer_at(type, in_.take(size_of(type), "its value").data());
    }
    in_.of("");
  }

  uint64_t size_of(GgufType type) const {
    const int64_t bytes = bytes_of(type);
    if (bytes < 0) {
      in_.fail("has the type " + std::to_string(static_cast<uint32_t>(type)) + "; expected one from 0 to 12");
    }
    return static_cast<uint64_t>(bytes);
  }

  Array read_array(int depth) {
    if (depth == kMaxArrayDepth) in_.fail("arrays lie in arrays more than " + std::to_string(kMaxArrayDepth) + " deep");
    const auto type = GgufType{in_.number<uint32_t>("the type of an array")};
    const uint64_t count = in_.number<uint64_t>("the length of an array");
    const uint64_t bytes = size_of(type);
    in_.check_count("values", count, std::numeric_limits<uint64_t>::max(),
                    bytes > 0 ? bytes : (type == GgufType::kArray ? 12 : 8));
    if (bytes > 0) return {type, count, in_.take(count * bytes, "an array")};
    const std::byte* begin = in_.here();
    for (uint64_t i = 0; i < count; ++i) {
      if (type == GgufType::kArray) {
        read_array(depth + 1);
      } else {
        in_.string("a text of an array", std::numeric_limits<uint64_t>::max());
      }
    }
    return {type, count, {begin, in_.here()}};
  }

  std::pair<StoredTensor, uint64_t> read_tensor() {
    StoredTensor tensor;
    tensor.name = in_.string("a tensor's name", kMaxGgufName);
    tensor.file = file_.path().string();
    if (tensor.name.empty()) in_.fail("a tensor has no name");
    in_.of("tensor " + for_message(tensor.name));
    const auto rank = in_.number<uint32_t>("its number of dimensions");
    if (rank > kMaxDimensions) in_.fail("has " + std::to_string(rank) + " dimensions; expected at most 4");
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      const auto extent = in_.number<uint64_t>("a dimension");
      if (extent == 0 || extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / count) {
        in_.fail("has a dimension of " + std::to_string(extent) +
                 "; expected 1 or more, and a product that fits into 63 bits");
      }
      count *= extent;
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(extent));
    }
    const auto id = in_.number<uint32_t>("its type");
    const GgufTensorType* type = find_gguf_tensor_type(id);
    if (type == nullptr) in_.fail("has the type " + std::to_string(id) + ", which is unknown here");
    tensor.dtype = type->name;
    const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % type->block != 0) {
      in_.fail("has rows of " + std::to_string(row) + "; expected whole blocks of " + std::to_string(type->block) +
               " for " + tensor.dtype);
    }
    // Against overflow: a file has less than 2^63 bytes, and no type takes more than 8 for a number.
    const uint64_t blocks = count / type->block;
    if (blocks > file_.file_.bytes().size() / type->bytes) {
      in_.fail("of " + tensor.describe() + " is larger than the file (is the file truncated?)");
    }
    tensor.bytes = blocks * type->bytes;
    const auto offset = in_.number<uint64_t>("its offset");
    in_.of("");
    return {std::move(tensor), offset};
  }

  uint64_t alignment() const {
    const auto found = file_.metadata_.find("general.alignment");
    if (found == file_.metadata_.end()) return 32;
    const uint64_t value = found->is_number_unsigned() ? found->get<uint64_t>() : 0;
    if (!std::has_single_bit(value) || value > kMaxAlignment) {
      in_.fail("general.alignment is " + for_message(found->dump(-1, ' ', true, Json::error_handler_t::replace)) +
               "; expected a power of two up to " + std::to_string(kMaxAlignment));
    }
    return value;
  }

  void place(std::vector<std::pair<StoredTensor, uint64_t>> tensors) {
    const uint64_t align = alignment();
    const std::span<const std::byte> bytes = file_.file_.bytes();
    const uint64_t begin = (static_cast<uint64_t>(in_.here() - bytes.data()) + align - 1) / align * align;
    if (tensors.empty()) return;
    if (begin > bytes.size()) in_.fail("ends before its tensors begin (is the file truncated?)");
    const uint64_t room = bytes.size() - begin;
    for (auto& [tensor, offset] : tensors) {
      in_.of("tensor " + for_message(tensor.name));
      if (offset % align != 0) {
        in_.fail("begins at " + std::to_string(offset) + "; expected a multiple of " + std::to_string(align));
      }
      if (offset > room || tensor.bytes > room - offset) {
        in_.fail("takes " + std::to_string(tensor.bytes) + " bytes from " + std::to_string(offset) + "; there are " +
                 std::to_string(room) + " (is the file truncated?)");
      }
      tensor.data = bytes.data() + begin + offset;
      std::string name = tensor.name;
      if (!file_.tensors_.emplace(std::move(name), std::move(tensor)).second) in_.fail("is there twice");
    }
    in_.of("");
    check_overlaps(in_, file_.tensors_);
  }

  GgufFile& file_;
  GgufReader in_;
};

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path) {
  Reader(*this).read();
  check_whole();
}

const GgufFile::Array& GgufFile::array(const std::string& key, const char* expected) const {
  const auto found = arrays_.find(key);
  if (found != arrays_.end()) return found->second;
  throw Error("gguf", path().string() + ": \"" + key + "\": expected " + expected + ", found " +
                          (metadata_.contains(key) ? "a single value" : "nothing"));
}

std::vector<std::string_view> GgufFile::strings(const std::string& key) const {
  const char* expected = "an array of texts";
  const Array& from = array(key, expected);
  GgufReader in(path(), from.bytes);
  if (from.type != GgufType::kString) in.fail("\"" + key + "\": expected " + expected + ", found one of other values");
  std::vector<std::string_view> out;
  out.reserve(from.count);
  for (uint64_t i = 0; i < from.count; ++i) out.push_back(in.string("a text", std::numeric_limits<uint64_t>::max()));
  return out;
}

std::vector<int64_t> GgufFile::integers(const std::string& key) const {
  const char* expected = "an array of integers";
  const Array& from = array(key, expected);
  const GgufReader in(path(), from.bytes);
  if (!is_integer(from.type)) in.fail("\"" + key + "\": expected " + expected + ", found one of other values");
  std::vector<int64_t> out;
  out.reserve(from.count);
  for (uint64_t i = 0; i < from.count; ++i) {
    const Json value = integer_at(from.type, from.bytes.data() + i * bytes_of(from.type));
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      in.fail("\"" + key + "\": expected integers of 63 bits, found " + value.dump());
    }
    out.push_back(value.get<int64_t>());
  }
  return out;
}

std::vector<bool> GgufFile::booleans(const std::string& key) const {
  const char* expected = "an array of booleans";
  const Array& from = array(key, expected);
  const GgufReader in(path(), from.bytes);
  if (from.type != GgufType::kBool) in.fail("\"" + key + "\": expected " + expected + ", found one of other values");
  std::vector<bool> out;
  out.reserve(from.count);
  for (uint64_t i = 0; i < from.count; ++i) out.push_back(from.bytes[i] != std::byte{0});
  return out;
}

std::vector<float> GgufFile::floats(const std::string& key) const {
  const char* expected = "an array of F32 numbers";
  const Array& from = array(key, expected);
  const GgufReader in(path(), from.bytes);
  if (from.type != GgufType::kF32) in.fail("\"" + key + "\": expected " + expected + ", found one of other values");
  std::vector<float> out(from.count);
  if (!out.empty()) std::memcpy(out.data(), from.bytes.data(), from.bytes.size());
  return out;
}

}  // namespace ashlar
