// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of the host on the device, for the ops of StagedOps.

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/bf16.h"
#include "staged_ops.h"

namespace ashlar::conformance {
/// Values of the host on the device.
template <class T>
class StagedArray {
 public:
  StagedArray(Ops& ops, T* host, size_t n) : ops_(ops), host_(host), n_(host == nullptr ? 0 : n) {
    if (host == nullptr) return;
    memory_ = ops.allocate(sizeof(T) * std::max(n, size_t{1}));
    ops.upload(host, memory_->data(), sizeof(T) * n);
  }
  T* device() const { return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_->data()); }
  void fetch() { ops_.download(memory_->data(), const_cast<std::remove_const_t<T>*>(host_), sizeof(T) * n_); }

 private:
  Ops& ops_;
  T* host_;
  size_t n_;
  std::unique_ptr<Buffer> memory_;
};

template <class T>
StagedArray<T> staged(Ops& ops, T* host, int64_t n) {
  return StagedArray<T>(ops, host, static_cast<size_t>(n));
}

class StagedOps::TwinBuffer final : public Buffer {
 public:
  TwinBuffer(StagedOps& ops, size_t bytes)
      : ops_(ops), host_(bytes + 64), size_(bytes), twin_(ops.inner_->allocate(bytes)) {
    const auto address = reinterpret_cast<uintptr_t>(host_.data());
    data_ = host_.data() + (64 - address % 64) % 64;
    ASHLAR_CHECK_EQ(reinterpret_cast<uintptr_t>(twin_->data()) % 64, 0U);
    fetch();
    ops_.twins_[data_] = this;
  }
  ~TwinBuffer() override { ops_.twins_.erase(data_); }
  std::byte* data() override { return data_; }
  size_t size() const override { return size_; }

  std::byte* twin() { return twin_->data(); }
  void send() { ops_.inner_->upload(data_, twin_->data(), size_); }
  void fetch() { ops_.inner_->download(twin_->data(), data_, size_); }

 private:
  StagedOps& ops_;
  std::vector<std::byte> host_;
  size_t size_;
  std::byte* data_;
  std::unique_ptr<Buffer> twin_;
};

/// A tensor of the host on the device, as far off an alignment as it is here.
class StagedOps::StagedTensor {
 public:
  StagedTensor(Ops& ops, Tensor host, DType type) : ops_(ops), host_(host), type_(type) {
    lead_ = static_cast<int64_t>(reinterpret_cast<uintptr_t>(host.data) / sizeof(float) % 8);
    const int64_t elements = lead_ + host.rows * host.stride + 8;
    image_.resize(static_cast<size_t>(elements) * bytes_of(type));
    for (int64_t i = 0; i < elements; ++i) put(i, kGuard);
    for_elements([&](int64_t at, float& value) {
      put(at, type == DType::kF32 ? std::bit_cast<uint32_t>(value) : to_bf16(value).bits);
    });
    memory_ = ops.allocate(image_.size());
    ops.upload(image_.data(), memory_->data(), image_.size());
  }
  Tensor device() const {
    return {memory_->data() + static_cast<size_t>(lead_) * bytes_of(type_), host_.rows, host_.cols, host_.stride,
            type_};
  }
  void fetch() {
    ops_.download(memory_->data(), image_.data(), image_.size());
    for_elements([&](int64_t at, float& value) {
      value = type_ == DType::kF32 ? std::bit_cast<float>(get(at)) : to_float(BFloat16{static_cast<uint16_t>(get(at))});
      put(at, kGuard);
    });
    for (size_t i = 0; i < image_.size() / bytes_of(type_); ++i) {
      const bool nothing_else_was_written =
          get(static_cast<int64_t>(i)) == (type_ == DType::kF32 ? kGuard : kGuard & 0xFFFF);
      ASHLAR_CHECK(nothing_else_was_written);
    }
  }

 private:
  static constexpr uint32_t kGuard = 0x7FC17FC1;  // no number, in either type

  template <class Fn>
  void for_elements(const Fn& fn) {
    for (int32_t r = 0; r < host_.rows; ++r) {
      for (int32_t c = 0; c < host_.cols; ++c) fn(lead_ + r * host_.stride + c, host_.row(r)[c]);
    }
  }
  void put(int64_t at, uint32_t bits) {
    std::memcpy(&image_[static_cast<size_t>(at) * bytes_of(type_)], &bits, bytes_of(type_));
  }
  uint32_t get(int64_t at) const {
    uint32_t bits = 0;
    std::memcpy(&bits, &image_[static_cast<size_t>(at) * bytes_of(type_)], bytes_of(type_));
    return bits;
  }

  Ops& ops_;
  Tensor host_;
  DType type_;
  int64_t lead_;
  std::vector<std::byte> image_;
  std::unique_ptr<Buffer> memory_;
};

/// Pages or states in a buffer of this device.
template <class Plane>
class StagedOps::StagedPlane {
 public:
  StagedPlane(StagedOps& ops, const Plane& host) : device_(host) {
    const auto after = ops.twins_.upper_bound(host.base);
    ASHLAR_CHECK(after != ops.twins_.begin());
    buffer_ = std::prev(after)->second;
    buffer_->send();
    device_.base = buffer_->twin() + (host.base - buffer_->data());
  }
  const Plane& device() const { return device_; }
  void fetch() { buffer_->fetch(); }

 private:
  TwinBuffer* buffer_;
  Plane device_;
};

/// Rows, and what they point to that points on. ends: positions that each row's page table must reach; null: their own.
struct StagedOps::StagedRows {
  StagedRows(Ops& ops, const Rows& host, const int32_t* ends) : rows(host) {
    const auto keep = [&](auto* values, int64_t n) {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
      if (values == nullptr) return static_cast<const T*>(nullptr);
      memory.push_back(ops.allocate(sizeof(T) * static_cast<size_t>(std::max<int64_t>(n, 1))));
      ops.upload(values, memory.back()->data(), sizeof(T) * static_cast<size_t>(n));
      return reinterpret_cast<const T*>(memory.back()->data());
    };
    const int32_t tables = host.n == 0 ? 0 : 1 + *std::max_element(host.tables, host.tables + host.n);
    std::vector<int32_t> pages(static_cast<size_t>(tables));
    for (int32_t r = 0; r < host.n; ++r) {
      if (ends == nullptr && (host.is_without_kv(r) || host.scratch_slot(r) >= 0)) continue;
      const int32_t end = ends != nullptr ? ends[r] : host.positions[r] + 1;
      int32_t& most = pages[static_cast<size_t>(host.tables[r])];
      most = std::max(most, (end + kPageTokens - 1) / kPageTokens);
    }
    std::vector<const int32_t*> page_tables;
    for (int32_t t = 0; t < tables && host.page_tables != nullptr; ++t) {
      page_tables.push_back(keep(host.page_tables[t], pages[static_cast<size_t>(t)]));
    }
    std::vector<BranchTable> branches;
    for (int32_t t = 0; t < tables && host.branch_tables != nullptr; ++t) {
      branches.push_back(host.branch_tables[t]);
      branches.back().slots = keep(branches.back().slots, branches.back().n);
    }
    rows.ids = nullptr;
    rows.positions = keep(host.positions, host.n);
    rows.tables = keep(host.tables, host.n);
    rows.page_tables = keep(page_tables.data(), tables);
    rows.without_kv = keep(host.without_kv, host.n);
    rows.scratch_slots = keep(host.scratch_slots, host.n);
    rows.branch_tables = host.branch_tables != nullptr ? keep(branches.data(), tables) : nullptr;
    rows.states = keep(host.states, tables);
    rows.block_ends = keep(host.block_ends, host.n);
    rows.first_keys = keep(host.first_keys, tables);
  }
  Rows rows;
  std::vector<std::unique_ptr<Buffer>> memory;
};

}  // namespace ashlar::conformance
