// SPDX-License-Identifier: Apache-2.0
#pragma once
// Strict binding: every tensor of a checkpoint is taken exactly once, with the shape and dtype the model expects.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/ops.h"
#include "io/weights/checkpoint.h"

namespace ashlar {

/// How the numbers of a tensor are stored; none: they are no weights.
std::optional<Scheme> scheme_of(const StoredTensor& tensor);

/// Whether the checkpoint holds both tensors, of the same bytes, shape and type, without scales apart.
bool holds_twice(const Checkpoint& checkpoint, const std::string& one, const std::string& other);

/// A vector of floats in device memory (norm weights).
class DeviceVector {
 public:
  DeviceVector() = default;
  DeviceVector(Ops& ops, const std::vector<float>& values);
  const float* data() const { return storage_ ? reinterpret_cast<const float*>(storage_->data()) : nullptr; }

 private:
  std::unique_ptr<Buffer> storage_;
};

class WeightBinder {
 public:
  /// `checkpoint` must outlive this. `products`: what those of linear() and gated() are for.
  WeightBinder(Ops& ops, const Checkpoint& checkpoint, Products products = Products::kDecide)
      : ops_(ops), checkpoint_(checkpoint), products_(products) {}

  bool has(const std::string& name) const { return checkpoint_.tensors().contains(name); }
  /// How many sizes the tensor's shape has; 0: it is not there.
  size_t dimensions_of(const std::string& name) const;
  /// Whether the tensor is there, and its numbers have scales apart.
  bool is_quantised(const std::string& name) const;

  /// The tensor `name`, which must be [rows, cols] in a float dtype, of finite numbers. Marks it as taken.
  WeightPart matrix(const std::string& name, int64_t rows, int64_t cols);
  /// The `count` matrices of a tensor [count, rows, cols].
  std::vector<WeightPart> matrices(const std::string& name, int64_t count, int64_t rows, int64_t cols);
  /// The values of the vector `name` of length n.
  std::vector<float> vector(const std::string& name, int64_t n, InterleavedHeads interleaved = {});
  /// The values of a tensor whose last size is n and whose others are 1.
  std::vector<float> row(const std::string& name, int64_t n);
  /// The values of a tensor [rows, cols].
  std::vector<float> table(const std::string& name, int64_t rows, int64_t cols);
  /// The values of a tensor of this shape.
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape);
  DeviceVector device_vector(const std::string& name, int64_t n) { return {ops_, vector(name, n)}; }
  /// The weight NAME.weight of a norm. `from_one`: it is stored as what it has more than one.
  DeviceVector norm(const std::string& name, int64_t n, bool from_one);
  /// A tensor of a stated non-float dtype ("I64", "BOOL") and shape [n].
  const StoredTensor& raw(const std::string& name, const std::string& dtype, int64_t n);

  /// A tensor NAME.weight, or several that were stored as one: the rows of each.
  struct Part {
    Part(std::string name, int64_t rows, InterleavedHeads interleaved = {})
        : name(std::move(name)), pieces{rows}, interleaved(interleaved) {}
    Part(std::string name, std::vector<int64_t> pieces) : name(std::move(name)), pieces(std::move(pieces)) {}
    std::string name;
    std::vector<int64_t> pieces;
    InterleavedHeads interleaved;
  };
  /// Packs the parts, stacked along rows, with NAME.bias of each if `bias`.
  std::unique_ptr<Weight> linear(const std::vector<Part>& parts, int64_t cols, bool bias);
  /// Packs parts that matrix() gave, and a bias or none.
  std::unique_ptr<Weight> linear(std::vector<WeightPart> parts, std::vector<float> bias = {});
  /// The same for Ops::gated_mlp: gates, then ups.
  std::unique_ptr<Weight> gated(const std::vector<Part>& parts, int64_t cols, bool bias);

  /// The same of one tensor for choices between near equals.
  std::unique_ptr<Weight> router(const Part& part, int64_t cols, bool bias);

  /// The same for Ops::embed, and for products over the vocabulary.
  std::unique_ptr<Weight> vocabulary(const Part& part, int64_t cols);

  /// Marks a tensor as known but unused.
  void ignore(const std::string& name) { taken_.insert(name); }
  /// Throws if the checkpoint has a tensor that nothing took, or a file that became shorter while it was read.
  void finish() const;

  Ops& ops() const { return ops_; }

 private:
  WeightSource stack(const std::vector<Part>& parts, int64_t cols, bool bias);
  const StoredTensor& take(const std::string& name, const std::vector<int64_t>& shape, const std::string& dtype = "");
  WeightPart view(const StoredTensor& tensor, int64_t rows, int64_t cols) const;

  Ops& ops_;
  const Checkpoint& checkpoint_;
  const Products products_;
  std::set<std::string> taken_;
};

}  // namespace ashlar
