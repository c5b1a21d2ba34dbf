// SPDX-License-Identifier: Apache-2.0
#pragma once
// What distinguishes one chain method from another: where drafts come from. Autoregressive decoding is a chain without
// proposer.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/decoder.h"
#include "decode/policy/step_cost.h"
#include "model/layer_stack.h"
#include "model/row_batch.h"

namespace ashlar {

/// A decode span inside a launch: the sequence's state and the rows that will be verified. Drafts are a chain, or a
/// tree whose rows stand depth first: a row that does not follow its parent begins a branch.
struct ChainSpan {
  int32_t slot = 0;
  int32_t start = 0;  ///< position of the last token
  int32_t width = 1;  ///< rows to verify: the last token and width - 1 drafts
  int32_t most = 1;   ///< rows that a tree may have: the least likely ones may be left out after
  /// pages[position / kPageTokens], of the proposer's planes; from context_begin to the last row's position.
  const int32_t* pages = nullptr;
  int32_t context_begin = 0;  ///< the proposer looks from here on: its context holds every position up to `start`
  bool proposes = true;       ///< false: the drafts are there already, or there are none
  /// Rows of the proposer's block, where that is more: it may do better on whole blocks.
  int32_t draft_rows = 0;
  int32_t branches = 0;         ///< most branches after the first
  int32_t ids[kMaxWidth] = {};  ///< ids[0] is the last token; a proposer fills ids[1..width), or lowers width
  int32_t parents[kMaxWidth] =
      {};  ///< parents[r] < r: the row whose token comes before that of row r; r - 1 in a chain
  /// What the proposer thinks of its drafts: chances[k], k from 1 to n_chances, is that of the k-th likeliest path of
  /// all, whose last token is in row order[k]; 0: it has no row. None where the proposer does not say.
  int32_t n_chances = 0;
  float chances[kMaxWidth] = {};
  int32_t order[kMaxWidth] = {};

  /// Leaves a tree its `n` - 1 likeliest drafts.
  void keep_likeliest(int32_t n);
  void make_chain() {
    n_chances = 0;
    for (int32_t r = 1; r < kMaxWidth; ++r) parents[r] = r - 1;
  }
  /// Drafts that the proposer thinks will be accepted, of those that have a row.
  double expected() const {
    double sum = 0;
    for (int32_t k = 1; k <= n_chances; ++k) sum += order[k] > 0 ? chances[k] : 0.0;
    return sum;
  }
};

/// Rows of the target's forward whose tokens are now certain, and the auxiliary hidden states they left.
struct CommittedRows {
  Tensor aux_hidden;      ///< [batch.n(), aux_width]; where the proposer reads_before(), those of the positions before
  const RowBatch& batch;  ///< without outputs
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual std::string name() const = 0;
  /// Most rows a verify span may have with this proposer's drafts.
  virtual int32_t max_width() const = 0;
  /// Most branches of a draft tree after its first; 0: it proposes chains.
  virtual int32_t max_branches() const { return 0; }
  /// Pages that its own planes have beyond those of the cache, while trees of up to `max_slots` sequences grow.
  virtual int32_t spare_pages(int32_t /*max_slots*/) const { return 0; }
  /// Whether the width may be chosen pass by pass, or is fixed by the user.
  virtual bool adapts_width() const = 0;
  virtual std::span<const AuxLayer> aux_layers() const = 0;
  virtual int32_t aux_width() const = 0;
  /// Whether its context at a position is made of the token there and the auxiliary hidden state of the position
  /// before. Position 0 then has none. If not, it is made of the hidden state of the position itself.
  virtual bool reads_before() const { return false; }
  /// Whether propose() reads newest(), as any does that reads_before().
  virtual bool reads_newest() const { return reads_before(); }
  /// Whether it is to fill its whole block, as far as there is room, however few of the drafts are verified: they
  /// depend on all of it.
  virtual bool fills_whole_blocks() const { return false; }
  /// Whether each draft of a sequence is a pass of its own, so that the widest span decides how many passes there are.
  virtual bool drafts_in_turn() const { return false; }
  /// Newest tokens that it looks at, rounded up to whole pages; 0: all. With a window its planes have fewer pages than
  /// the cache, and the tables of spans and rows are theirs.
  virtual int32_t window() const = 0;
  /// What its rows see of its context.
  virtual KeysSeen keys_seen() const { return KeysSeen({window()}); }
  virtual void register_state(KvLayout& layout) = 0;
  virtual void start(const StepLimits& limits, const KvMemory& kv) = 0;
  /// Called once, after start(), where it reads_newest(): row s of `newest`, [slots, aux_width], is the auxiliary
  /// hidden state before the last token of the sequence in slot s whenever propose() is asked for its drafts.
  virtual void set_newest(Tensor /*newest*/) {}
  /// As Decoder::admit().
  virtual void admit(int32_t slot, const Slot& state, std::span<const int32_t> tokens) = 0;

  /// Fills the drafts of all spans that have `proposes`, in one pass over the drafter where the method allows.
  virtual void propose(std::span<ChainSpan> spans, SlotTable& slots) = 0;
  /// The distribution that draft ids[index] of this span was drawn from, as probabilities by target id [vocab] in
  /// device memory, or null if the draft was certain or knew of later ones. Only for slots that sample by rejection;
  /// valid until the next propose.
  virtual const float* draft_distribution(int32_t slot, int32_t index) const = 0;
  /// Takes in committed rows (of prompts and of accepted drafts alike).
  virtual void write_context(const CommittedRows& committed) = 0;
};

}  // namespace ashlar
