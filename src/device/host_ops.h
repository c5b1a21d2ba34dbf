#pragma once
// What devices have in common whose memory is the host's own.

#include "device/ops.h"

namespace ashlar {

class HostOps : public Ops {
 public:
  void visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) override;
  void softcap(Tensor x, float limit) override;
  void upload(const void* from, std::byte* to, size_t bytes) override;
  void download(const std::byte* from, void* to, size_t bytes) override;
  std::byte* host_view(std::byte* at, size_t /*bytes*/, std::vector<std::byte>& /*staging*/) override { return at; }
  void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) override;
};

}  // namespace ashlar
