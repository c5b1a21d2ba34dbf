#pragma once
// Strict binding: every tensor of a checkpoint is taken exactly once, with the shape and dtype the model expects.

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device/ops.h"
#include "io/checkpoint.h"

namespace ashlar {

/// A vector of floats in device memory (norm weights).
class DeviceVector {
 public:
  DeviceVector() = default;
  DeviceVector(Ops& ops, const std::vector<float>& values);
  const float* data() const { return storage_ ? reinterpret_cast<const float*>(storage_->data()) : nullptr; }

 private:
  std::unique_ptr<Buffer> storage_;
};

/// What products with weights are for. Those of a drafter only propose: no answer is wrong for what it says, so the
/// weights of linear() and gated() have 8 bits a value there where the device gains by that (Ops::quantise).
enum class Products : uint8_t { kDecide, kPropose };

class WeightBinder {
 public:
  /// `checkpoint` must outlive this.
  WeightBinder(Ops& ops, const Checkpoint& checkpoint, Products products = Products::kDecide)
      : ops_(ops), checkpoint_(checkpoint), products_(products) {}

  bool has(const std::string& name) const { return checkpoint_.tensors().contains(name); }

  /// The tensor `name`, which must be [rows, cols] in a float dtype, of finite numbers. Marks it as taken.
  HostTensor matrix(const std::string& name, int64_t rows, int64_t cols);
  /// The `count` matrices of a tensor [count, rows, cols].
  std::vector<HostTensor> matrices(const std::string& name, int64_t count, int64_t rows, int64_t cols);
  /// Throws unless `tensor` has the dtype of `sibling`.
  void require_dtype(const HostTensor& tensor, const HostTensor& sibling) const;
  /// The values of the vector `name` of length n.
  std::vector<float> vector(const std::string& name, int64_t n);
  DeviceVector device_vector(const std::string& name, int64_t n) { return {ops_, vector(name, n)}; }
  /// A tensor of a stated non-float dtype ("I64", "BOOL") and shape [n].
  const StoredTensor& raw(const std::string& name, const std::string& dtype, int64_t n);

  /// Packs NAME.weight of each name, stacked along rows, with NAME.bias if `bias`.
  struct Part {
    std::string name;
    int64_t rows;
  };
  std::unique_ptr<Weight> linear(const std::vector<Part>& parts, int64_t cols, bool bias);
  /// The same for Ops::gated_mlp.
  std::unique_ptr<Weight> gated(const Part& gate, const Part& up, int64_t cols, bool bias);

  /// Packs NAME.weight as f32, whatever it is stored in.
  std::unique_ptr<Weight> wide_linear(const std::string& name, int64_t rows, int64_t cols);

  /// Packs NAME.weight for Ops::embed, and for products that decide.
  std::unique_ptr<Weight> embedding(const Part& part, int64_t cols);

  /// Marks a tensor as known but unused.
  void ignore(const std::string& name) { taken_.insert(name); }
  /// Throws if the checkpoint has a tensor that nothing took, or a file that became shorter while it was read.
  void finish() const;

  Ops& ops() const { return ops_; }

 private:
  std::vector<float> values(const StoredTensor& tensor) const;
  HostTensor view(const StoredTensor& tensor, int64_t rows, int64_t cols);
  struct Stacked {
    std::vector<HostTensor> tensors;
    std::vector<float> biases;
  };
  std::unique_ptr<Weight> for_products(std::unique_ptr<Weight> weight) const;
  Stacked stack(const std::vector<Part>& parts, int64_t cols, bool bias);
  const StoredTensor& take(const std::string& name, const std::vector<int64_t>& shape);

  Ops& ops_;
  const Checkpoint& checkpoint_;
  const Products products_;
  std::set<std::string> taken_;
  std::list<std::vector<std::byte>> realigned_;
};

}  // namespace ashlar
