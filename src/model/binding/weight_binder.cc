// SPDX-License-Identifier: Apache-2.0
#include "model/binding/weight_binder.h"

#include <cstring>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& tensor, const std::string& what) {
  throw Error("weights", file + ": tensor " + tensor + ": " + what);
}

WeightPart view_of(const StoredTensor& tensor, int64_t rows, int64_t cols) {
  if (tensor.scaled) return {tensor.name, *tensor.scaled};
  const auto scheme = find_scheme(tensor.dtype);
  if (!scheme) fail(tensor.file, tensor.name, "expected dtype " + scheme_names() + ", found " + tensor.dtype);
  if (cols % group_of(*scheme) != 0) {
    fail(tensor.file, tensor.name,
         "expected rows of whole blocks of " + tensor.dtype + ", found " + std::to_string(cols));
  }
  return {tensor.name, *scheme, tensor.data, rows, cols};
}

}  // namespace

std::optional<Scheme> scheme_of(const StoredTensor& tensor) {
  return tensor.scaled ? scheme_of(*tensor.scaled) : find_scheme(tensor.dtype);
}

bool holds_twice(const Checkpoint& checkpoint, const std::string& one, const std::string& other) {
  const auto& tensors = checkpoint.tensors();
  const auto a = tensors.find(one), b = tensors.find(other);
  if (a == tensors.end() || b == tensors.end()) return false;
  const StoredTensor &x = *a->second, &y = *b->second;
  if (x.scaled || y.scaled) return false;
  return x.dtype == y.dtype && x.shape == y.shape && std::memcmp(x.data, y.data, x.bytes) == 0;
}

DeviceVector::DeviceVector(Ops& ops, const std::vector<float>& values)
    : storage_(ops.allocate(values.size() * sizeof(float))) {
  ops.upload(values.data(), storage_->data(), values.size() * sizeof(float));
}

// The tensor as `rows` rows. Numbers that are not finite make every answer nonsense, or no answer at all; they never
// mean anything.
WeightPart WeightBinder::view(const StoredTensor& tensor, int64_t rows, int64_t cols) const {
  const WeightPart part = view_of(tensor, rows, cols);
  ASHLAR_CHECK(part.rows == rows && part.cols == cols);
  if (checkpoint_.is_made()) return part;
  if (const auto at = first_not_finite(part)) {
    fail(tensor.file, tensor.name,
         "expected finite numbers, found infinity or NaN at element " + std::to_string(*at) +
             "; the file may be damaged: fetch or convert it again");
  }
  return part;
}

const StoredTensor& WeightBinder::take(const std::string& name, const std::vector<int64_t>& shape,
                                       const std::string& dtype) {
  const StoredTensor* const found = checkpoint_.find(name, shape, dtype);
  if (found == nullptr) fail(checkpoint_.folder().string(), name, "missing; expected " + describe_shape(shape));
  const StoredTensor& tensor = *found;
  if (tensor.shape != shape)
    fail(tensor.file, name, "expected shape " + describe_shape(shape) + ", found " + describe_shape(tensor.shape));
  taken_.insert(name);
  return tensor;
}

size_t WeightBinder::dimensions_of(const std::string& name) const {
  const auto it = checkpoint_.tensors().find(name);
  return it == checkpoint_.tensors().end() ? 0 : it->second->shape.size();
}

bool WeightBinder::is_quantised(const std::string& name) const {
  const auto it = checkpoint_.tensors().find(name);
  return it != checkpoint_.tensors().end() && it->second->scaled.has_value();
}

WeightPart WeightBinder::matrix(const std::string& name, int64_t rows, int64_t cols) {
  return view(take(name, {rows, cols}), rows, cols);
}

std::vector<WeightPart> WeightBinder::matrices(const std::string& name, int64_t count, int64_t rows, int64_t cols) {
  const WeightPart all = view(take(name, {count, rows, cols}), count * rows, cols);
  std::vector<WeightPart> matrices;
  for (int64_t i = 0; i < count; ++i) matrices.push_back(all.block(i * rows, rows, 0, cols));
  return matrices;
}

std::vector<float> WeightBinder::vector(const std::string& name, int64_t n, InterleavedHeads interleaved) {
  std::vector<float> values(static_cast<size_t>(n));
  const int64_t rows = interleaved.head > 0 ? n : 1;
  WeightPart part = view(take(name, {n}), rows, n / rows);
  part.values.interleaved = interleaved;
  decode_rows(part, 0, rows, values.data());
  return values;
}

std::vector<float> WeightBinder::row(const std::string& name, int64_t n) {
  std::vector<int64_t> shape = {n};
  if (const auto it = checkpoint_.tensors().find(name); it != checkpoint_.tensors().end()) {
    if (it->second->shape.size() <= 4) shape.insert(shape.begin(), it->second->shape.size() - shape.size(), 1);
  }
  std::vector<float> values(static_cast<size_t>(n));
  decode_rows(view(take(name, shape), 1, n), 0, 1, values.data());
  return values;
}

std::vector<float> WeightBinder::table(const std::string& name, int64_t rows, int64_t cols) {
  std::vector<float> values(static_cast<size_t>(rows * cols));
  decode_rows(matrix(name, rows, cols), 0, rows, values.data());
  return values;
}

std::vector<float> WeightBinder::values(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<float> values(static_cast<size_t>(count));
  decode_rows(view(take(name, shape), 1, count), 0, 1, values.data());
  return values;
}

DeviceVector WeightBinder::norm(const std::string& name, int64_t n, bool from_one) {
  std::vector<float> values = vector(name + ".weight", n);
  for (float& value : values) value += from_one ? 1.0F : 0.0F;
  return {ops_, values};
}

const StoredTensor& WeightBinder::raw(const std::string& name, const std::string& dtype, int64_t n) {
  const StoredTensor& tensor = take(name, {n}, dtype);
  if (tensor.dtype != dtype) fail(tensor.file, name, "expected dtype " + dtype + ", found " + tensor.dtype);
  return tensor;
}

WeightSource WeightBinder::stack(const std::vector<Part>& parts, int64_t cols, bool bias) {
  WeightSource out;
  for (const auto& [name, pieces, interleaved] : parts) {
    const int64_t rows = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
    WeightPart whole = matrix(name + ".weight", rows, cols);
    whole.values.interleaved = interleaved;
    int64_t row = 0;
    for (const int64_t n : pieces) {
      out.parts.push_back(whole.block(row, n, 0, cols));
      row += n;
    }
    if (!bias) continue;
    const std::vector<float> values = vector(name + ".bias", rows, interleaved);
    out.bias.insert(out.bias.end(), values.begin(), values.end());
  }
  return out;
}

std::unique_ptr<Weight> WeightBinder::linear(const std::vector<Part>& parts, int64_t cols, bool bias) {
  return ops_.pack(stack(parts, cols, bias), {.products = products_});
}

std::unique_ptr<Weight> WeightBinder::linear(std::vector<WeightPart> parts, std::vector<float> bias) {
  return ops_.pack({std::move(parts), std::move(bias)}, {.products = products_});
}

std::unique_ptr<Weight> WeightBinder::gated(const std::vector<Part>& parts, int64_t cols, bool bias) {
  return ops_.pack(stack(parts, cols, bias), {.products = products_, .gated = true});
}

std::unique_ptr<Weight> WeightBinder::router(const Part& part, int64_t cols, bool bias) {
  return ops_.pack(stack({part}, cols, bias), {.products = Products::kRoute});
}

std::unique_ptr<Weight> WeightBinder::vocabulary(const Part& part, int64_t cols) {
  return ops_.pack(stack({part}, cols, false), {.products = Products::kVocabulary});
}

void WeightBinder::finish() const {
  checkpoint_.check_whole();
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (!taken_.contains(name) && !tensor->optional) {
      fail(tensor->file, for_message(name),
           "not part of this model; found " + tensor->describe() + ", expected no such tensor");
    }
  }
}

}  // namespace ashlar
