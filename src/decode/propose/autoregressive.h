// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafts that a head writes one after another: as many passes as drafts, of one row a sequence. The first reads what
// the target left before the last token, the others what the pass before them left.

#include <memory>
#include <string>
#include <vector>

#include "decode/logits.h"
#include "decode/propose/proposer.h"
#include "device/device_array.h"
#include "model/drafters/draft_head.h"

namespace ashlar {

struct AutoregressiveOptions {
  static constexpr int32_t kDefaultWidth = 6;  ///< each draft is a pass; later ones are rarely accepted
  static constexpr int32_t kMaxWidth = 16;

  int32_t width = 0;   ///< rows of a verify span, last token included; 0: chosen pass by pass, up to kDefaultWidth
  int32_t window = 0;  ///< the head sees the newest `window` tokens only (whole pages); 0: all

  int32_t max_width() const { return width > 0 ? width : kDefaultWidth; }
};

class AutoregressiveProposer final : public Proposer {
 public:
  /// `name`: the method's. Throws Error("drafter", ...) if options are out of range.
  AutoregressiveProposer(std::string name, std::unique_ptr<DraftHead> head, Ops& ops,
                         const AutoregressiveOptions& options);

  std::string name() const override { return name_; }
  int32_t max_width() const override { return options_.max_width(); }
  bool adapts_width() const override { return options_.width == 0; }
  std::span<const AuxLayer> aux_layers() const override { return head_->aux_layers(); }
  int32_t aux_width() const override { return head_->aux_width(); }
  bool reads_before() const override { return true; }
  bool drafts_in_turn() const override { return true; }
  int32_t window() const override { return options_.window; }
  void register_state(KvLayout& layout) override { head_->register_state(layout); }
  void start(const StepLimits& limits, const KvMemory& kv) override;
  void set_newest(Tensor newest) override { newest_ = newest; }
  void admit(int32_t slot, const Slot& state, std::span<const int32_t> tokens) override;
  void propose(std::span<ChainSpan> spans, SlotTable& slots) override;
  const float* draft_distribution(int32_t slot, int32_t index) const override;
  void write_context(const CommittedRows& committed) override;

 private:
  /// Some rows one after another: copies in `room`, unless they are the first ones.
  Tensor select(Tensor rows, std::span<const int32_t> wanted, Tensor room);
  /// Pass k: draft k of every drafting span.
  DraftHead::Output run_pass(int32_t k, Tensor features);
  void choose(int32_t k, Tensor hidden, SlotTable& slots);
  void choose_highest(int32_t k, Tensor hidden, std::span<ChainSpan* const> spans);
  void sample(int32_t k, Tensor hidden, std::span<ChainSpan* const> spans, SlotTable& slots);
  float* distribution(int32_t slot, int32_t index) const;

  std::string name_;
  std::unique_ptr<DraftHead> head_;
  Ops& ops_;
  AutoregressiveOptions options_;
  const KvMemory* kv_ = nullptr;
  Tensor newest_;
  std::unique_ptr<RowBatch> batch_;
  std::unique_ptr<LogitsBuffer> logits_;
  DeviceArray<int32_t> entries_;  // of the draft vocabulary, for rows whose logits nothing else needs
  DeviceArray<int32_t> wanted_;
  std::unique_ptr<Buffer> storage_;
  Tensor aux_;       // [max_slots, aux_width]: of the spans that draft
  Tensor features_;  // [max_slots, feature_width]: of those that still do
  std::vector<ChainSpan*> drafting_;
  std::vector<int32_t> rows_;
  std::vector<RowRequest> requests_;
  std::vector<RowChoice> choices_;
  std::vector<std::unique_ptr<Buffer>> distributions_;  // per slot: [width, vocab], only where it samples by rejection
};

}  // namespace ashlar
