// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trained tensors of a network: values, gradients and moments, each kind in one piece of memory, so that clipping
// and optimiser are one loop each; and the values as products take them.

#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "train/drafter_trainer.h"

namespace ashlar {

struct DrafterParameter {
  Tensor value;     ///< [outputs, inputs], or one row
  Tensor gradient;  ///< the same shape
  Tensor factor;    ///< the value as products take it: itself, or a copy in another type
};

class TrainedTensors {
 public:
  TrainedTensors(const TrainedTensors&) = delete;
  TrainedTensors& operator=(const TrainedTensors&) = delete;
  virtual ~TrainedTensors() = default;

  /// To be called where values have changed since the last product.
  void refresh_factors();
  void initialise(uint64_t seed);
  std::span<const TrainParameter> list() const { return list_; }

  int64_t size() const { return size_; }  ///< floats of each kind, padding included
  float* values() const { return floats(kValues); }
  float* gradients() const { return floats(kGradients); }
  float* m() const { return floats(kFirstMoments); }
  float* v() const { return floats(kSecondMoments); }
  DType factor_type() const { return factor_type_; }

 protected:
  /// Values before the first step.
  enum class Start : uint8_t { kNoise, kZero, kOne, kIdentity };  // kIdentity: [sides, taps, n] of which tap 0 is 1
  struct Form {
    std::vector<int64_t> shape;  // rows of a tensor: all but the last
    Start start = Start::kNoise;
    bool is_table = false;
    bool is_of_head = false;
    bool is_from_one = false;
    bool is_optional = false;

    int64_t cols() const { return shape.back(); }
    int64_t size() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
  };
  static Form matrix(int64_t rows, int64_t cols) { return {{rows, cols}}; }
  static Form norm_of(int64_t n) { return {{n}, Start::kOne}; }
  struct Entry {
    std::string name;
    Form form;
    DrafterParameter* parameter;  // whose tensors are set
  };
  /// `factors`: what products take.
  TrainedTensors(TrainOps& ops, DType factors) : ops_(ops), factor_type_(factors) {}
  /// Once, by what has the parameters.
  void place(std::span<const Entry> entries);

 private:
  enum Kind { kValues, kGradients, kFirstMoments, kSecondMoments, kKinds };
  float* floats(Kind kind) const { return reinterpret_cast<float*>(memory_->data()) + kind * size_; }
  void start(size_t parameter, uint64_t seed);

  TrainOps& ops_;
  DType factor_type_;
  int64_t size_ = 0;
  std::unique_ptr<Buffer> memory_;   // [kinds][size_]
  std::unique_ptr<Buffer> factors_;  // [size_] in bf16, if products take that
  std::vector<TrainParameter> list_;
  std::vector<Start> starts_;
};

}  // namespace ashlar
