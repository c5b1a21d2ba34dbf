// SPDX-License-Identifier: Apache-2.0
#include "train/drafter/trained_tensors.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace ashlar {
namespace {

constexpr int64_t kAlignment = 16;  // floats: a cache line
constexpr double kDeviation = 0.02;

int64_t padded_size(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

/// FNV-1a of 32 bits.
uint32_t hash_of(const std::string& name) {
  uint32_t hash = 0x811C9DC5U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  return hash;
}

/// Standard normal values by Box and Muller's method.
void fill_normal(std::span<float> values, uint64_t seed, const std::string& name) {
  for (size_t i = 0; i < values.size(); i += 4) {
    const PhiloxBlock words = philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), hash_of(name), 0},
                                         static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    for (size_t pair = 0; pair < 4 && i + pair < values.size(); pair += 2) {
      const double radius = std::sqrt(-2 * std::log((words[pair] + 0.5) * 0x1p-32));
      const double angle = 2 * std::numbers::pi * words[pair + 1] * 0x1p-32;
      values[i + pair] = static_cast<float>(kDeviation * radius * std::cos(angle));
      if (i + pair + 1 < values.size()) {
        values[i + pair + 1] = static_cast<float>(kDeviation * radius * std::sin(angle));
      }
    }
  }
}

}  // namespace

void TrainedTensors::place(std::span<const Entry> entries) {
  for (const Entry& entry : entries) size_ += padded_size(entry.form.size());
  memory_ = ops_.allocate_shared(sizeof(float) * static_cast<size_t>(size_) * kKinds);
  const size_t each = bytes_of(factor_type_);
  if (factor_type_ != DType::kF32) factors_ = ops_.allocate(each * static_cast<size_t>(size_));
  int64_t at = 0;
  for (const auto& [name, form, parameter] : entries) {
    const auto count = static_cast<size_t>(form.size());
    const auto cols = static_cast<int32_t>(form.cols());
    const auto rows = static_cast<int32_t>(form.size() / cols);
    parameter->value = {values() + at, rows, cols, cols};
    parameter->gradient = {gradients() + at, rows, cols, cols};
    parameter->factor = parameter->value;
    if (factors_ != nullptr) {
      std::byte* const copy = factors_->data() + each * static_cast<size_t>(at);
      parameter->factor = {copy, rows, cols, cols, factor_type_};
    }
    list_.push_back({name,
                     form.shape,
                     {values() + at, count},
                     {gradients() + at, count},
                     {m() + at, count},
                     {v() + at, count},
                     form.is_table,
                     form.is_of_head,
                     form.is_from_one,
                     form.is_optional});
    starts_.push_back(form.start);
    at += padded_size(form.size());
  }
  for (size_t i = 0; i < list_.size(); ++i) {
    if (starts_[i] != Start::kNoise) start(i, 0);
  }
}

void TrainedTensors::start(size_t parameter, uint64_t seed) {
  const TrainParameter& p = list_[parameter];
  const Start form = starts_[parameter];
  if (form == Start::kNoise) return fill_normal(p.values, seed, p.name);
  std::fill(p.values.begin(), p.values.end(), form == Start::kOne ? 1.0F : 0.0F);
  if (form != Start::kIdentity) return;
  const auto n = static_cast<size_t>(p.shape[2]);
  const auto side = static_cast<size_t>(p.shape[1]) * n;
  for (size_t at = 0; at < p.values.size(); at += side) {
    std::fill_n(p.values.begin() + static_cast<ptrdiff_t>(at), n, 1.0F);
  }
}

void TrainedTensors::refresh_factors() {
  if (factors_ == nullptr) return;
  const auto rows = static_cast<int32_t>(size_ / kAlignment);
  constexpr auto kCols = static_cast<int32_t>(kAlignment);
  ops_.copy({values(), rows, kCols, kCols}, {factors_->data(), rows, kCols, kCols, factor_type_});
}

void TrainedTensors::initialise(uint64_t seed) {
  for (size_t i = 0; i < list_.size(); ++i) {
    start(i, seed);
    std::fill(list_[i].m.begin(), list_[i].m.end(), 0.0F);
    std::fill(list_[i].v.begin(), list_[i].v.end(), 0.0F);
  }
}

}  // namespace ashlar
