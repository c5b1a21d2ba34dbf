// SPDX-License-Identifier: Apache-2.0
#pragma once
// A limit on the tokens of one request, such as a grammar. Decoding knows nothing of where it comes from.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/wake_signal.h"

namespace ashlar {

/// Belongs to one request. Until the request is submitted it is its maker's; from then on only the device's thread (or
/// a worker of it) calls it, never two at once. It must be at the sequence's newest token at all times: it hears of
/// every token of the answer exactly once, in order, and not of the prompt's. A preempted sequence is computed again as
/// a prompt, so that the constraint, which stayed where it was, is right when decoding goes on.
///
/// A mask that takes long is found outside of the steps: the sequence takes part in none until it is there, which
/// changes no token.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// Whether mask() has its answer. If not, it is being found on another thread; the other functions must wait until
  /// waits() is false. Does a bounded amount of work itself, so that a mask that is soon found costs no waiting.
  virtual bool prepare() { return true; }
  /// Whether what prepare() began is still being found; any thread.
  virtual bool waits() const { return false; }
  /// What to raise whenever waits() becomes false. Before the request is submitted.
  virtual void wake_with(std::shared_ptr<WakeSignal> signal) { static_cast<void>(signal); }
  /// Sets bit (id % 32) of word id / 32 for each token that may come next and clears all others; words cover the
  /// model's vocabulary, every one must be written. False: anything goes, and the words were left as they are. Blocks
  /// where prepare() was not asked.
  virtual bool mask(std::span<uint32_t> allowed) = 0;
  /// Takes in the next token of the answer. It is one that the mask allowed.
  virtual void advance(int32_t token) = 0;
  /// Tokens that must or will most likely come next, as far as they are known: drafts, which verification decides
  /// about. Writes at most out.size() of them and returns how many.
  virtual int32_t forced(std::span<int32_t> out) {
    static_cast<void>(out);
    return 0;
  }
  /// Why a mask that ended the sequence allowed nothing, where that is the constraint's own error; else empty. Asked
  /// once the sequence has ended, on the engine's thread.
  virtual std::string problem() const { return {}; }
};

}  // namespace ashlar
