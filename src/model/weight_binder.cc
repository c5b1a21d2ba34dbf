#include "model/weight_binder.h"

#include <cstring>
#include <optional>

#include "base/bf16.h"
#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

std::optional<DType> float_dtype(const std::string& name) {
  if (name == "F32") return DType::kF32;
  if (name == "BF16") return DType::kBF16;
  if (name == "F16") return DType::kF16;
  return std::nullopt;
}

[[noreturn]] void fail(const std::string& file, const std::string& tensor, const std::string& what) {
  throw Error("weights", file + ": tensor " + tensor + ": " + what);
}

template <class T>
void widen(const std::byte* from, std::vector<float>& to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));  // the file guarantees no alignment
    to[i] = to_float(value);
  }
}

}  // namespace

DeviceVector::DeviceVector(Ops& ops, const std::vector<float>& values)
    : storage_(ops.allocate(values.size() * sizeof(float))) {
  std::memcpy(storage_->data(), values.data(), values.size() * sizeof(float));
}

const StoredTensor& WeightBinder::take(const std::string& name, const std::vector<int64_t>& shape) {
  const auto it = checkpoint_.tensors().find(name);
  if (it == checkpoint_.tensors().end()) {
    fail(checkpoint_.folder().string(), name, "missing; expected " + describe_shape(shape));
  }
  const StoredTensor& tensor = *it->second;
  if (tensor.shape != shape)
    fail(tensor.file, name, "expected shape " + describe_shape(shape) + ", found " + describe_shape(tensor.shape));
  taken_.insert(name);
  return tensor;
}

HostTensor WeightBinder::matrix(const std::string& name, int64_t rows, int64_t cols) {
  const StoredTensor& tensor = take(name, {rows, cols});
  const auto dtype = float_dtype(tensor.dtype);
  if (!dtype) fail(tensor.file, name, "expected dtype F32, F16 or BF16, found " + tensor.dtype);
  const std::byte* data = tensor.data;
  if (reinterpret_cast<uintptr_t>(data) % bytes_of(*dtype) != 0) {  // legal in the format, not in C++
    realigned_.emplace_back(data, data + tensor.bytes);
    data = realigned_.back().data();
  }
  return {tensor.name, *dtype, data, rows, cols};
}

std::vector<float> WeightBinder::vector(const std::string& name, int64_t n) {
  const StoredTensor& tensor = take(name, {n});
  const auto dtype = float_dtype(tensor.dtype);
  if (!dtype) fail(tensor.file, name, "expected dtype F32, F16 or BF16, found " + tensor.dtype);
  std::vector<float> values(n);
  switch (*dtype) {
    case DType::kF32:
      widen<float>(tensor.data, values);
      break;
    case DType::kBF16:
      widen<BFloat16>(tensor.data, values);
      break;
    case DType::kF16:
      widen<Float16>(tensor.data, values);
      break;
  }
  return values;
}

const StoredTensor& WeightBinder::raw(const std::string& name, const std::string& dtype, int64_t n) {
  const StoredTensor& tensor = take(name, {n});
  if (tensor.dtype != dtype) fail(tensor.file, name, "expected dtype " + dtype + ", found " + tensor.dtype);
  return tensor;
}

WeightBinder::Stacked WeightBinder::stack(const std::vector<Part>& parts, int64_t cols, bool bias) {
  Stacked out;
  auto& [tensors, biases] = out;
  for (const Part& part : parts) {
    tensors.push_back(matrix(part.name + ".weight", part.rows, cols));
    if (tensors.back().dtype != tensors.front().dtype) {
      fail(checkpoint_.tensors().at(part.name + ".weight")->file, part.name + ".weight",
           "expected dtype " + std::string(name_of(tensors.front().dtype)) + " as its sibling " + parts.front().name +
               " has, found " + std::string(name_of(tensors.back().dtype)));
    }
    if (bias) {
      const std::vector<float> values = vector(part.name + ".bias", part.rows);
      biases.insert(biases.end(), values.begin(), values.end());
    }
  }
  return out;
}

std::unique_ptr<Weight> WeightBinder::linear(const std::vector<Part>& parts, int64_t cols, bool bias) {
  const Stacked all = stack(parts, cols, bias);
  return ops_.pack(all.tensors, all.biases);
}

std::unique_ptr<Weight> WeightBinder::gated(const Part& gate, const Part& up, int64_t cols, bool bias) {
  const Stacked both = stack({gate, up}, cols, bias);
  return ops_.pack_gated(both.tensors[0], both.tensors[1], both.biases);
}

void WeightBinder::finish() const {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (!taken_.contains(name)) {
      fail(tensor->file, for_message(name),
           "not part of this model; found " + tensor->describe() + ", expected no such tensor");
    }
  }
}

}  // namespace ashlar
