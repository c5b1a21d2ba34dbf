// SPDX-License-Identifier: Apache-2.0
#pragma once
// Weights on the GPU. Those of bf16 lie in tiles (see packed_place() in device_math.cuh): [n / 64][k / 64] of 64
// outputs x 64 inputs, with n padded by zeros to a multiple of 64 and k to one of 128. In a gated weight 8 gates are
// followed by the 8 ups that belong to them. Those of 4 and 8 bits lie in such tiles, too (quantised_layout.h). Those
// of fp32 are [n, k], gates before ups.

#include <memory>

#include "base/thread_pool.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/kernels.h"
#include "device/ops.h"

namespace ashlar::cuda {

/// Segments into which a sum over k inputs is cut: by the weight's shape alone, since it decides about bits. Of bf16
/// where 64 outputs at a time keep few processors busy, up to four, of at least 256 inputs each. Of fewer bits as many
/// as have 256 inputs, up to kMaxSegments: one chain would take longer than memory takes to bring its weights.
int32_t splits_of(Packed format, int32_t n, int32_t k);
/// The format for numbers that need `precision` and are kept as `numbers` (kept_numbers).
Packed format_for(DType precision, Numbers numbers);
std::string_view name_of(Packed format);
/// Bytes of `count` numbers.
int64_t packed_bytes(Packed format, int64_t count);

/// How some numbers were packed.
struct Layout {
  Layout(int32_t n, int32_t k, Packed format, bool is_gated);

  int32_t n;  ///< of the source
  int32_t k;
  Packed format;
  bool is_gated;
  int32_t packed_n;  ///< outputs with the padding between gates and ups
  int32_t packed_k;
  size_t bytes;

  bool is_f32() const { return format == Packed::kF32; }
  bool is_quantised() const { return !is_f32() && format != Packed::kBf16; }
  /// Output of the source that lies at `row` of the packed ones; -1: padding.
  int32_t source_row(int32_t row) const;
  /// A call for products of this weight, without what is the caller's.
  ProductCall call(const void* weight, const float* bias) const;
};

class CudaWeight final : public Weight {
 public:
  CudaWeight(Memory& memory, ThreadPool& pool, const WeightSource& source, Packed format, bool is_gated);

  int32_t n() const override { return layout_.n; }
  int32_t k() const override { return layout_.k; }
  size_t bytes() const override;
  std::string_view format() const override { return name_of(layout_.format); }

  const Layout& layout() const { return layout_; }
  const void* data() const { return values_->data(); }
  ProductCall call() const;

 private:
  Layout layout_;
  std::unique_ptr<Buffer> values_;
  std::unique_ptr<Buffer> bias_;  // null or [packed_n]
};

class CudaExperts final : public ExpertWeights {
 public:
  CudaExperts(Memory& memory, ThreadPool& pool, std::span<const ExpertSource> experts, KeptWeights kept);

  int32_t n() const override { return n_; }
  int32_t hidden() const override { return down_.n; }
  int32_t width() const override { return down_.k; }
  size_t bytes() const override {
    const auto of = [](const std::unique_ptr<Buffer>& bias) { return bias ? bias->size() : 0; };
    return static_cast<size_t>(n_) * (gate_up_.bytes + down_.bytes) + of(gate_up_bias_) + of(down_bias_);
  }

  const Layout& gate_up_layout() const { return gate_up_; }
  const Layout& down_layout() const { return down_; }
  ProductCall gate_up() const;
  ProductCall down() const;
  /// Gates of bounds, of GELU and with biases are not the products' own work: gate_up() gives sums in fp32 for
  /// gate_experts().
  bool gates_apart() const { return !gate_up_.is_gated; }
  const ExpertGate& gate() const { return gate_; }
  const float* gate_up_bias() const { return bias_of(gate_up_bias_); }  ///< [n, 2 width], or null
  const float* down_bias() const { return bias_of(down_bias_); }        ///< [n, hidden], or null

 private:
  static const float* bias_of(const std::unique_ptr<Buffer>& bias) {
    return bias != nullptr ? reinterpret_cast<const float*>(bias->data()) : nullptr;
  }

  int32_t n_;
  ExpertGate gate_;
  Layout gate_up_, down_;
  std::unique_ptr<Buffer> gate_up_values_, down_values_;  // expert by expert
  std::unique_ptr<Buffer> gate_up_bias_, down_bias_;
};

}  // namespace ashlar::cuda
