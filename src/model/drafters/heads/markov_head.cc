// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/heads/markov_head.h"

#include <algorithm>

#include "device/tensor_room.h"

namespace ashlar {

MarkovHead::MarkovHead(WeightBinder& binder, const std::string& prefix, const DrafterNames& names,
                       const MarkovConfig& config, int32_t hidden, int32_t vocab, int32_t draft_vocab)
    : config_(config),
      hidden_(hidden),
      draft_vocab_(draft_vocab),
      codes_(binder.vocabulary({prefix + names.markov_codes, vocab}, config.rank)),
      outputs_(binder.linear({{prefix + names.markov_outputs, draft_vocab}}, config.rank, false)) {
  if (!config.gated) return;
  const std::string gate = prefix + names.markov_gate;
  const WeightPart both = binder.matrix(gate + ".weight", config.rank, int64_t{hidden} + config.rank);
  gate_of_hidden_ = binder.linear({both.block(0, config.rank, 0, hidden)}, binder.vector(gate + ".bias", config.rank));
  gate_of_code_ = binder.linear({both.block(0, config.rank, hidden, config.rank)});
}

void MarkovHead::reserve(Ops& ops, int32_t /*blocks*/) {
  ids_ = {ops, int64_t{2} * kAtOnce};
  added_ = {ops, int64_t{kAtOnce} * draft_vocab_};
  const DType type = ops.activation_type();
  const auto lay_out = [&](TensorRoom room) {
    for (Tensor* t : {&code_rows_, &gates_}) *t = room.take(kAtOnce, config_.rank, type);
    hidden_rows_ = room.take(kAtOnce, hidden_, type);
    return room.size();
  };
  storage_ = place_tensors(ops, lay_out);
  host_ids_.reserve(size_t{2} * kAtOnce);
}

Tensor MarkovHead::codes_of(Ops& ops, Tensor hidden, std::span<const Step> steps) {
  const auto n = static_cast<int32_t>(steps.size());
  host_ids_.clear();
  for (const Step& step : steps) host_ids_.push_back(step.token);
  for (const Step& step : steps) host_ids_.push_back(step.row);
  ids_.upload(host_ids_);
  const Tensor codes = code_rows_.narrow(n);
  ops.embed(*codes_, ids_.device(), 1.0F, codes);
  if (!gate_of_hidden_) return codes;
  const Tensor rows = hidden_rows_.narrow(n), gates = gates_.narrow(n);
  ops.gather_rows(hidden, ids_.device() + n, rows);
  ops.linear(*gate_of_hidden_, rows, Store::kOverwrite, gates);
  ops.linear(*gate_of_code_, codes, Store::kAdd, gates);
  ops.sigmoid_gate(gates, codes);
  return codes;
}

void MarkovHead::add(Ops& ops, Tensor hidden, Tensor logits, std::span<const Step> steps) {
  while (!steps.empty()) {
    const std::span<const Step> some = steps.first(std::min<size_t>(steps.size(), kAtOnce));
    const Tensor added = {added_.device(), static_cast<int32_t>(some.size()), draft_vocab_, draft_vocab_};
    ops.linear(*outputs_, codes_of(ops, hidden, some), Store::kOverwrite, added);
    for (int32_t i = 0; i < added.rows; ++i) {
      ops.reduce_add(added.part(i, 1), logits.part(some[static_cast<size_t>(i)].row, 1));
    }
    steps = steps.subspan(some.size());
  }
}

}  // namespace ashlar
