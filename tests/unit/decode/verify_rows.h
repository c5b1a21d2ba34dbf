// SPDX-License-Identifier: Apache-2.0
#pragma once
// Verifies one span of which the test has the logits.

#include <vector>

#include "decode/verify/verify.h"
#include "device/device.h"

namespace ashlar::testing {

/// logits: [input.n, vocab]. `ops` may be any device whose memory is the host's.
inline SpanResult verify_rows(Ops& ops, std::vector<float> logits, const VerifyInput& input, Slot& slot,
                              TokenLogprobs* logprobs = nullptr) {
  const auto vocab = static_cast<int32_t>(logits.size()) / input.n;
  SpanResult result;
  SpanWalk walk;
  walk.begin(input, vocab, slot, result, logprobs);
  Verifier verifier;
  verifier.reserve(input.n, 1);
  verifier.verify(ops, {logits.data(), input.n, vocab, vocab}, {&walk, 1});
  return result;
}

/// On the reference device, which asks about one row at a time.
inline SpanResult verify_rows(std::vector<float> logits, const VerifyInput& input, Slot& slot,
                              TokenLogprobs* logprobs = nullptr) {
  static const std::unique_ptr<Ops> ref = make_device("ref", {});
  return verify_rows(*ref, std::move(logits), input, slot, logprobs);
}

}  // namespace ashlar::testing
