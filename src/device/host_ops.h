// SPDX-License-Identifier: Apache-2.0
#pragma once
// What devices have in common whose memory is the host's own.

#include <vector>

#include "device/ops.h"
#include "device/sampling/sampler.h"

namespace ashlar {

/// Ops::for_each for anything that can be called: fn(i) for every i in [0, n).
template <class Fn>
void for_each_item(Ops& ops, int32_t n, const Fn& fn) {
  ops.for_each(
      n, [](void* context, int32_t i) { (*static_cast<const Fn*>(context))(i); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

class HostOps : public Ops {
 public:
  void visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) override;
  void scale(Tensor x, float factor) override;
  void softcap(Tensor x, float limit) override;
  void find_candidates(Tensor logits, Candidates out) override;
  void choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) override;
  void upload(const void* from, std::byte* to, size_t bytes) override;
  void download(const std::byte* from, void* to, size_t bytes) override;
  void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) override;

 private:
  std::vector<SamplerScratch> scratch_;  // per thread
};

}  // namespace ashlar
