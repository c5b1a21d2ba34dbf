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

// Of numbers whose exponent has these bits: the first that is infinite or no number at all, or `n`. Several at a time:
// of a number whose exponent is all ones, and of no other, the exponent and one more carry into the sign.
template <class Bits>
size_t first_not_finite(const std::byte* from, size_t n, Bits exponent) {
  constexpr size_t kAtOnce = sizeof(uint64_t) / sizeof(Bits);
  constexpr uint64_t kEach = ~uint64_t{0} / static_cast<Bits>(~Bits{0});  // a one for each number
  const uint64_t mask = kEach * exponent;
  const uint64_t one = kEach * static_cast<Bits>(exponent & -exponent);
  const uint64_t sign = kEach * static_cast<Bits>(exponent + (exponent & -exponent));
  size_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    uint64_t numbers;
    std::memcpy(&numbers, from + i * sizeof(Bits), sizeof numbers);
    if ((((numbers & mask) + one) & sign) != 0) break;
  }
  for (; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * sizeof(Bits), sizeof bits);
    if ((bits & exponent) == exponent) break;
  }
  return i;
}

// One such weight makes every answer nonsense, or no answer at all; it never means anything.
void require_finite(const StoredTensor& tensor, DType dtype) {
  const size_t n = tensor.bytes / bytes_of(dtype);
  const size_t at = dtype == DType::kF32   ? first_not_finite<uint32_t>(tensor.data, n, 0x7F800000)
                    : dtype == DType::kF16 ? first_not_finite<uint16_t>(tensor.data, n, 0x7C00)
                                           : first_not_finite<uint16_t>(tensor.data, n, 0x7F80);
  if (at == n) return;
  fail(tensor.file, tensor.name,
       "expected finite numbers, found infinity or NaN at element " + std::to_string(at) +
           "; the file may be damaged: fetch or convert it again");
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

HostTensor WeightBinder::view(const StoredTensor& tensor, int64_t rows, int64_t cols) {
  const auto dtype = float_dtype(tensor.dtype);
  if (!dtype) fail(tensor.file, tensor.name, "expected dtype F32, F16 or BF16, found " + tensor.dtype);
  require_finite(tensor, *dtype);
  const std::byte* data = tensor.data;
  if (reinterpret_cast<uintptr_t>(data) % bytes_of(*dtype) != 0) {  // legal in the format, not in C++
    realigned_.emplace_back(data, data + tensor.bytes);
    data = realigned_.back().data();
  }
  return {tensor.name, *dtype, data, rows, cols};
}

HostTensor WeightBinder::matrix(const std::string& name, int64_t rows, int64_t cols) {
  return view(take(name, {rows, cols}), rows, cols);
}

std::vector<HostTensor> WeightBinder::matrices(const std::string& name, int64_t count, int64_t rows, int64_t cols) {
  HostTensor each = view(take(name, {count, rows, cols}), rows, cols);
  std::vector<HostTensor> matrices;
  for (int64_t i = 0; i < count; ++i) {
    matrices.push_back(each);
    each.data = static_cast<const std::byte*>(each.data) + rows * cols * static_cast<int64_t>(bytes_of(each.dtype));
  }
  return matrices;
}

void WeightBinder::require_dtype(const HostTensor& tensor, const HostTensor& sibling) const {
  if (tensor.dtype == sibling.dtype) return;
  const std::string name(tensor.name);
  fail(checkpoint_.tensors().at(name)->file, name,
       "expected dtype " + std::string(name_of(sibling.dtype)) + " as its sibling " + std::string(sibling.name) +
           " has, found " + std::string(name_of(tensor.dtype)));
}

std::vector<float> WeightBinder::values(const StoredTensor& tensor) const {
  const auto dtype = float_dtype(tensor.dtype);
  if (!dtype) fail(tensor.file, tensor.name, "expected dtype F32, F16 or BF16, found " + tensor.dtype);
  require_finite(tensor, *dtype);
  std::vector<float> values(tensor.bytes / bytes_of(*dtype));
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

std::vector<float> WeightBinder::vector(const std::string& name, int64_t n) { return values(take(name, {n})); }

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
    require_dtype(tensors.back(), tensors.front());
    if (bias) {
      const std::vector<float> values = vector(part.name + ".bias", part.rows);
      biases.insert(biases.end(), values.begin(), values.end());
    }
  }
  return out;
}

std::unique_ptr<Weight> WeightBinder::linear(const std::vector<Part>& parts, int64_t cols, bool bias) {
  const Stacked all = stack(parts, cols, bias);
  return for_products(ops_.pack(all.tensors, all.biases));
}

std::unique_ptr<Weight> WeightBinder::embedding(const Part& part, int64_t cols) {
  const Stacked all = stack({part}, cols, false);
  return ops_.pack(all.tensors, {});
}

std::unique_ptr<Weight> WeightBinder::for_products(std::unique_ptr<Weight> weight) const {
  if (products_ == Products::kDecide) return weight;
  std::unique_ptr<Weight> quantised = ops_.quantise(*weight);
  return quantised ? std::move(quantised) : std::move(weight);
}

std::unique_ptr<Weight> WeightBinder::gated(const Part& gate, const Part& up, int64_t cols, bool bias) {
  const Stacked both = stack({gate, up}, cols, bias);
  return for_products(ops_.pack_gated(both.tensors[0], both.tensors[1], both.biases));
}

std::unique_ptr<Weight> WeightBinder::wide_linear(const std::string& name, int64_t rows, int64_t cols) {
  const std::vector<float> wide = values(take(name + ".weight", {rows, cols}));
  const HostTensor tensor = {name, DType::kF32, wide.data(), rows, cols};
  return ops_.pack({&tensor, 1}, {});
}

void WeightBinder::finish() const {
  checkpoint_.check_whole();
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (!taken_.contains(name)) {
      fail(tensor->file, for_message(name),
           "not part of this model; found " + tensor->describe() + ", expected no such tensor");
    }
  }
}

}  // namespace ashlar
