// SPDX-License-Identifier: Apache-2.0
#pragma once
// What drafts were drawn from, of sequences that sample by rejection: [width, vocab] in device memory for each.

#include <memory>
#include <utility>
#include <vector>

#include "device/ops.h"

namespace ashlar {

class DraftDistributions {
 public:
  void reserve(int32_t slots) {
    of_slot_.resize(static_cast<size_t>(slots));
    spare_.reserve(of_slot_.size());
  }
  /// Gives a slot memory of `bytes`, always as many, or takes it back. It stays for the next that needs some: a device
  /// that repeats passes from what it wrote down would have to begin anew wherever memory is freed.
  void set(Ops& ops, int32_t slot, bool wanted, size_t bytes) {
    std::unique_ptr<Buffer>& own = of_slot_[static_cast<size_t>(slot)];
    if (wanted == (own != nullptr)) return;
    if (!wanted) return spare_.push_back(std::move(own));
    if (spare_.empty()) {
      own = ops.allocate(bytes);
    } else {
      own = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  /// Null where the sequence does not sample by rejection.
  Buffer* of(int32_t slot) const { return of_slot_[static_cast<size_t>(slot)].get(); }

 private:
  std::vector<std::unique_ptr<Buffer>> of_slot_, spare_;
};

}  // namespace ashlar
