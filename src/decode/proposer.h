#pragma once
// What distinguishes one chain method from another: where drafts come from. Autoregressive decoding is a chain without
// proposer.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/decoder.h"
#include "model/layer_stack.h"

namespace ashlar {

/// A decode span inside a launch: the sequence's state and the rows that will be verified.
struct ChainSpan {
  int32_t slot = 0;
  int32_t start = 0;  ///< position of the anchor
  int32_t width = 1;  ///< rows to verify: the anchor and width - 1 drafts
  /// pages[position / kPageTokens], of the proposer's planes; from context_begin to the last row's position.
  const int32_t* pages = nullptr;
  int32_t context_begin = 0;    ///< the proposer looks from here on: it has absorbed every position up to `start`
  int32_t ids[kMaxWidth] = {};  ///< ids[0] is the anchor; a proposer fills ids[1..width), or lowers width
};

/// Rows of the target's forward whose tokens are now certain, and the tap rows they left.
struct CommittedRows {
  Tensor taps;  ///< [rows, tap_width]
  Rows rows;
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual std::string name() const = 0;
  /// Most rows a verify span may have with this proposer's drafts.
  virtual int32_t max_width() const = 0;
  /// Whether the width may be chosen pass by pass, or is fixed by the user.
  virtual bool adapts_width() const = 0;
  virtual std::span<const Tap> taps() const = 0;
  virtual int32_t tap_width() const = 0;
  /// Newest tokens that it looks at, rounded up to whole pages; 0: all. With a window its planes have fewer pages than
  /// the cache, and the tables of spans and rows are theirs.
  virtual int32_t window() const = 0;
  virtual void register_planes(KvLayout& layout) = 0;
  virtual void start(const StepLimits& limits, const KvMemory& kv) = 0;
  virtual void admit(int32_t slot, const Slot& state) = 0;

  /// Fills the drafts of all spans, in one pass over the drafter where the method allows.
  virtual void propose(std::span<ChainSpan> spans, SlotTable& slots) = 0;
  /// The distribution that draft ids[index] of this span was drawn from, as probabilities by target id [vocab], or null
  /// if the draft was certain. Only for slots that sample by rejection; valid until the next propose.
  virtual const float* draft_distribution(int32_t slot, int32_t index) const = 0;
  /// Takes in committed rows (of prompts and of accepted drafts alike).
  virtual void absorb(const CommittedRows& committed) = 0;
};

}  // namespace ashlar
