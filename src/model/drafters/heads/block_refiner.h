// SPDX-License-Identifier: Apache-2.0
#pragma once
// A head whose drafts know all drafts of the block before them, and that asks about all positions together: it adds to
// their logits what the newest drafts say, as often as drafts change. A position looks back alone, so that after r
// rounds at least r drafts are what they would be one after the other. Source: xPress (arXiv 2608.02438; speculators).

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device_array.h"
#include "device/ops.h"
#include "model/binding/weight_binder.h"
#include "model/drafters/dflash_config.h"

namespace ashlar {

/// With e the code of the token before a position, h its final hidden state and g the mean of all of the block's, let
/// a = W [D h; D' g; e]. Channel by channel, b grows out of a by a sum over the positions up to this one, with a weight
/// for each pair of positions; then c = b + down(silu(gate b) * up b), and the position's logits grow by U c.
class BlockRefiner {
 public:
  /// Binds the head after PREFIX, by the names of speculators (refiner_head.) where the drafter is in its form, else by
  /// those of the method's own checkpoints (xpress_head.).
  BlockRefiner(WeightBinder& binder, const std::string& prefix, const DflashConfig& config);

  int32_t rounds() const { return config_.rounds; }  ///< at most; drafts that no longer change need no more
  size_t bytes_read() const;                         ///< of weights, by a round
  /// Of activations that are not counted elsewhere, in numbers.
  static int64_t workspace(const RefinerConfig& config, int32_t hidden, int32_t block, int32_t draft_vocab,
                           int32_t rows);
  /// For up to `rows` rows a call.
  void reserve(Ops& ops, int32_t rows);

  struct Block {
    int32_t first = 0;  ///< row of hidden
    int32_t rows = 0;   ///< all of the block's, that of the last token too
  };
  /// Takes in what rounds have in common. hidden: [rows, hidden], blocks one after the other.
  void begin(Ops& ops, Tensor hidden, std::span<const Block> blocks);
  /// Some rows of what begin() was given; valid until the next call.
  Tensor some_of(Ops& ops, Tensor hidden, std::span<const int32_t> rows);
  /// What logits of `wanted` rows grow by: out [wanted, draft_vocab], fp32. before: the token before each row.
  void correct(Ops& ops, std::span<const int32_t> before, std::span<const int32_t> wanted, Tensor out);

 private:
  RefinerConfig config_;
  int32_t hidden_, block_;
  std::unique_ptr<Weight> narrow_, narrow_mean_;              // D, D'
  std::unique_ptr<Weight> of_hidden_, of_mean_, of_code_;     // W, cut
  std::unique_ptr<Weight> codes_, gate_up_, down_, outputs_;  // outputs: U
  DeviceArray<float> mixer_;                                  // [block, block * rank]: of the t-th position before
  DeviceArray<float> nothing_, shares_;                       // zeros [block * rank]; [rows, block]: parts of a mean
  DeviceArray<int32_t> places_, ids_;                         // of begin(), of correct()
  std::unique_ptr<Buffer> storage_;
  Tensor fixed_, code_rows_, x_, y_, hidden_rows_;  // [rows, rank], the last [rows, hidden]
  Tensor weights_;                                  // [rows, block * rank], fp32: rows of mixer_
  int32_t rows_ = 0;                                // of begin()
  std::vector<int32_t> host_ids_;
  std::vector<float> host_shares_;
};

}  // namespace ashlar
