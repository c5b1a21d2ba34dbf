// SPDX-License-Identifier: Apache-2.0
#include "train/capture/hidden_file.h"

#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/error.h"
#include "device/weights/weight_source.h"
#include "io/json.h"
#include "io/weights/hashed_file.h"
#include "io/weights/safetensors_writer.h"

namespace ashlar {
namespace {

constexpr const char* kStates = "hidden_states";
constexpr const char* kFinal = "final_hidden";
constexpr const char* kIds = "token_ids";

[[noreturn]] void fail_hidden(const std::filesystem::path& path, const std::string& what) {
  throw Error("train", path.string() + ": " + what);
}

std::string layers_text(const std::vector<int32_t>& layers) {
  std::string text;
  for (const int32_t layer : layers) text += (text.empty() ? "" : ",") + std::to_string(layer);
  return text;
}

template <class Value>
std::vector<int64_t> whole_numbers(std::span<const Value> values) {
  return {values.begin(), values.end()};
}

const StoredTensor& tensor_of(const std::filesystem::path& path, const SafetensorsFile& file, const char* name,
                              const std::vector<int64_t>& shape) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) {
    fail_hidden(path, std::string("has no tensor ") + name + "; expected F32, BF16 or F16 " + describe_shape(shape) +
                          "; remove the file to have it made anew");
  }
  const StoredTensor& tensor = found->second;
  const bool number = tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16";
  if (tensor.shape == shape && number) return tensor;
  fail_hidden(path,
              std::string(name) + " is " + tensor.describe() + "; expected F32, BF16 or F16 " + describe_shape(shape));
}

int64_t integer_at(const StoredTensor& tensor, size_t i) {
  if (tensor.dtype == "I32") {
    int32_t value = 0;
    std::memcpy(&value, tensor.data + i * sizeof value, sizeof value);
    return value;
  }
  int64_t value = 0;
  std::memcpy(&value, tensor.data + i * sizeof value, sizeof value);
  return value;
}

// Copies bits. Returns whether all are numbers: an exponent of ones is that of infinity and of what is none.
template <class Bits, Bits kExponent>
bool copy_numbers(const std::byte* from, size_t n, std::byte* to) {
  std::memcpy(to, from, n * sizeof(Bits));
  bool numbers = true;
  for (size_t i = 0; i < n; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    numbers &= (bits & kExponent) != kExponent;
  }
  return numbers;
}

}  // namespace

std::map<std::string, std::string> metadata_of(const HiddenLayout& layout) {
  return {{"target", layout.target}, {"layers", layers_text(layout.layers)}};
}

void write_hidden_file(const std::filesystem::path& path, std::span<const int32_t> ids,
                       std::span<const uint8_t> supervised, const HiddenLayout& layout, const HiddenStates& states) {
  const auto n = static_cast<int64_t>(ids.size());
  const auto n_layers = static_cast<int64_t>(layout.layers.size()) + 1;
  const std::vector<int64_t> token_ids = whole_numbers(ids), mask = whole_numbers(supervised);
  const auto type = states.type == DType::kF32 ? TensorToWrite::Type::kF32 : TensorToWrite::Type::kBF16;
  std::vector<TensorToWrite> tensors = {{kStates, {n, n_layers, layout.hidden}, states.states, type}};
  if (!states.final_hidden.empty()) tensors.push_back({kFinal, {n, layout.hidden}, states.final_hidden, type});
  for (const auto& [name, values] : {std::pair{kIds, &token_ids}, std::pair{"loss_mask", &mask}}) {
    TensorToWrite& tensor = tensors.emplace_back();
    tensor.name = name;
    tensor.shape = {n};
    tensor.type = TensorToWrite::Type::kI64;
    tensor.integers = *values;
  }
  write_hashed_safetensors(path, tensors, metadata_of(layout));
}

HiddenFile::HiddenFile(const std::filesystem::path& path, std::span<const int32_t> ids, const HiddenLayout& layout)
    : path_(path), file_(path), width_(layout.width()), hidden_(layout.hidden) {
  check_metadata(layout);
  check_ids(ids);
  const auto n = static_cast<int64_t>(ids.size());
  states_ = &tensor_of(path, file_, kStates, {n, static_cast<int64_t>(layout.layers.size()) + 1, layout.hidden});
  if (!layout.final_hidden) return;
  if (!file_.tensors().contains(kFinal)) {
    fail_hidden(path, "has no tensor final_hidden, which this --loss needs; capture into another folder with it");
  }
  final_ = &tensor_of(path, file_, kFinal, {n, layout.hidden});
}

void HiddenFile::check_content() const {
  const std::string damage = damage_of(file_);
  if (!damage.empty()) fail_hidden(path_, damage + "; the same command with --capture makes it anew");
}

void HiddenFile::check_metadata(const HiddenLayout& layout) const {
  const auto check = [&](const char* key, const std::string& expected) {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end() || found->second == expected) return;
    fail_hidden(
        path_,
        "was captured of " + std::string(key) + " " + for_message(found->second, 60) + "; expected " + expected +
            "; name another folder for this target and these layers, or remove it (where a server wrote it: start "
            "that with this target and --aux-layers " +
            layers_text(layout.layers) + ")");
  };
  check("target", layout.target);
  check("layers", layers_text(layout.layers));
}

void HiddenFile::check_ids(std::span<const int32_t> ids) const {
  const auto found = file_.tensors().find(kIds);
  const std::vector<int64_t> shape = {static_cast<int64_t>(ids.size())};
  if (found == file_.tensors().end()) {
    fail_hidden(path_, std::string("has no tensor ") + kIds + "; expected I64 or I32 " + describe_shape(shape) +
                           "; remove the file to have it made anew");
  }
  const StoredTensor& tensor = found->second;
  const bool integers = tensor.dtype == "I64" || tensor.dtype == "I32";
  if (tensor.shape != shape || !integers) {
    fail_hidden(path_, "token_ids is " + tensor.describe() + "; expected I64 or I32 " + describe_shape(shape) +
                           ": it is of other data, or was cut at another --max-length");
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = integer_at(tensor, i);
    if (id == ids[i]) continue;
    fail_hidden(path_, "token_ids[" + std::to_string(i) + "] is " + std::to_string(id) + "; expected " +
                           std::to_string(ids[i]) + ": it is of other data");
  }
}

void HiddenFile::read(const StoredTensor& from, Columns columns, DType type, std::byte* to) const {
  const int64_t rows = from.shape.front();
  const auto fail_of_row = [&](int64_t row) {
    fail_hidden(path_, from.name + " has a number of token " + std::to_string(row) +
                           " that is none; remove the file to have it made anew");
  };
  if (from.dtype == (type == DType::kF32 ? "F32" : "BF16")) {  // as ours are: bf16 at 1.9 GB/s instead of 0.7
    const size_t each = bytes_of(type), n = static_cast<size_t>(columns.n);
    for (int64_t r = 0; r < rows; ++r, to += n * each) {
      const std::byte* const row = from.data + static_cast<size_t>(r * columns.of + columns.begin) * each;
      const bool numbers = type == DType::kF32 ? copy_numbers<uint32_t, 0x7f800000>(row, n, to)
                                               : copy_numbers<uint16_t, 0x7f80>(row, n, to);
      if (!numbers) fail_of_row(r);
    }
    file_.check_whole();
    return;
  }
  const WeightPart part(from.name, *find_scheme(from.dtype), from.data, rows, columns.of);
  std::vector<float> values(static_cast<size_t>(columns.of));
  for (int64_t r = 0; r < rows; ++r) {
    decode_rows(part, r, r + 1, values.data());
    for (int64_t c = 0; c < columns.n; ++c, to += bytes_of(type)) {
      float value = values[static_cast<size_t>(columns.begin + c)];
      BFloat16 rounded{};
      if (type == DType::kBF16) value = to_float(rounded = to_bf16(value));
      if (!std::isfinite(value)) fail_of_row(r);
      if (type == DType::kF32) {
        std::memcpy(to, &value, sizeof value);
      } else {
        std::memcpy(to, &rounded, sizeof rounded);
      }
    }
  }
  file_.check_whole();
}

void HiddenFile::read_aux(DType type, std::byte* to) const { read(*states_, {width_ + hidden_, 0, width_}, type, to); }

void HiddenFile::read_last(DType type, std::byte* to) const {
  read(*states_, {width_ + hidden_, width_, hidden_}, type, to);
}

void HiddenFile::read_final(DType type, std::byte* to) const {
  ASHLAR_CHECK(final_ != nullptr);
  read(*final_, {hidden_, 0, hidden_}, type, to);
}

}  // namespace ashlar
