// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/heads/domino_head.h"

#include <algorithm>

#include "device/tensor_room.h"

namespace ashlar {
namespace {

// Where the head's tensors are: SpecForge has them at the top, its first checkpoints and speculators in a part.
std::string domino_prefix(const WeightBinder& binder, const std::string& prefix) {
  for (const char* part : {"logits_correction.", "logit_head."}) {
    if (binder.has(prefix + part + "prefix_gru.weight_ih_l0")) return prefix + part;
  }
  return prefix;
}

}  // namespace

DominoHead::DominoHead(WeightBinder& binder, const std::string& prefix, const DflashConfig& config,
                       const Weight& embedding)
    : config_(*config.domino),
      hidden_(config.stack.hidden),
      draft_vocab_(config.draft_vocab),
      embedding_scale_(config.embedding_scale),
      embedding_(embedding) {
  const std::string base = domino_prefix(binder, prefix);
  const int64_t state = config_.state;
  // Rows for the reset gate, the update gate and the new state, one part after the other.
  const WeightPart of_token = binder.matrix(base + "prefix_gru.weight_ih_l0", 3 * state, hidden_);
  const WeightPart of_state = binder.matrix(base + "prefix_gru.weight_hh_l0", 3 * state, state);
  const auto part = [&](const WeightPart& of, int64_t which) {
    return binder.linear({of.block(which * state, state, 0, of.cols)});
  };
  for (int32_t gate = 0; gate < 2; ++gate) {
    gates_of_token_[gate] = part(of_token, gate);
    gates_of_state_[gate] = part(of_state, gate);
  }
  new_of_token_ = part(of_token, 2);
  new_of_state_ = part(of_state, 2);
  const WeightPart code = binder.matrix(base + "embed_proj.0.weight", config_.width, hidden_ + state);
  code_of_hidden_ = binder.linear({code.block(0, config_.width, 0, hidden_)});
  code_of_state_ = binder.linear({code.block(0, config_.width, hidden_, state)});
  outputs_ = binder.linear({{base + "embed_proj.2", draft_vocab_}}, config_.width, false);
}

size_t DominoHead::bytes_read() const {
  size_t sum = new_of_token_->bytes() + new_of_state_->bytes() + code_of_hidden_->bytes() + code_of_state_->bytes();
  for (int32_t gate = 0; gate < 2; ++gate) sum += gates_of_token_[gate]->bytes() + gates_of_state_[gate]->bytes();
  return sum + outputs_->bytes();
}

void DominoHead::reserve(Ops& ops, int32_t blocks) {
  ids_ = {ops, std::max(2 * blocks, kAtOnce)};
  host_ids_.reserve(static_cast<size_t>(ids_.size()));
  rows_of_.reserve(static_cast<size_t>(blocks));
  added_ = {ops, int64_t{kAtOnce} * draft_vocab_};
  const DType type = ops.activation_type();
  const auto lay_out = [&](TensorRoom room) {
    embedded_ = room.take(blocks, hidden_, type);
    for (Tensor* t : {&before_, &gates_[0], &gates_[1], &fresh_}) *t = room.take(blocks, config_.state, type);
    for (Tensor& states : states_) states = room.take(blocks + 1, config_.state, type);
    hidden_rows_ = room.take(kAtOnce, hidden_, type);
    for (Tensor* t : {&codes_, &spare_}) *t = room.take(kAtOnce, config_.width, type);
    return room.size();
  };
  storage_ = place_tensors(ops, lay_out);
}

Tensor DominoHead::remember(Ops& ops, std::span<const Step> steps) {
  const auto n = static_cast<int32_t>(steps.size());
  const int32_t nothing = states_[0].rows - 1;
  host_ids_.clear();
  for (const Step& step : steps) host_ids_.push_back(step.token);
  for (const Step& step : steps) {
    const auto row = std::find(rows_of_.begin(), rows_of_.end(), step.block) - rows_of_.begin();
    host_ids_.push_back(step.draft == 1 ? nothing : static_cast<int32_t>(row));
  }
  ids_.upload(host_ids_);
  rows_of_.clear();
  for (const Step& step : steps) rows_of_.push_back(step.block);

  const Tensor embedded = embedded_.narrow(n), before = before_.narrow(n), fresh = fresh_.narrow(n);
  const Tensor update = gates_[1].narrow(n), after = states_[1 - current_].narrow(n);
  ops.embed(embedding_, ids_.device(), embedding_scale_, embedded);
  ops.gather_rows(states_[current_], ids_.device() + n, before);
  for (int32_t gate = 0; gate < 2; ++gate) {
    ops.linear(*gates_of_token_[gate], embedded, Store::kOverwrite, gates_[gate].narrow(n));
    ops.linear(*gates_of_state_[gate], before, Store::kAdd, gates_[gate].narrow(n));
  }
  ops.linear(*new_of_state_, before, Store::kOverwrite, fresh);
  ops.sigmoid_gate(gates_[0].narrow(n), fresh);
  ops.linear(*new_of_token_, embedded, Store::kAdd, fresh);
  ops.softcap(fresh, 1);  // tanh
  // 1 - sigmoid(x) is sigmoid(-x).
  ops.copy(before, after);
  ops.sigmoid_gate(update, after);
  ops.scale(update, -1);
  ops.sigmoid_gate(update, fresh);
  ops.reduce_add(fresh, after);
  current_ = 1 - current_;
  return after;
}

void DominoHead::add(Ops& ops, Tensor hidden, Tensor logits, std::span<const Step> steps) {
  if (steps.empty()) return;
  const Tensor states = remember(ops, steps);
  if (steps.front().draft <= config_.pure) return;
  for (size_t first = 0; first < steps.size(); first += kAtOnce) {
    const std::span<const Step> some = steps.subspan(first, std::min<size_t>(steps.size() - first, kAtOnce));
    const auto n = static_cast<int32_t>(some.size());
    host_ids_.clear();
    for (const Step& step : some) host_ids_.push_back(step.row);
    ids_.upload(host_ids_);
    const Tensor rows = hidden_rows_.narrow(n), codes = codes_.narrow(n), gates = spare_.narrow(n);
    ops.gather_rows(hidden, ids_.device(), rows);
    ops.linear(*code_of_hidden_, rows, Store::kOverwrite, codes);
    ops.linear(*code_of_state_, states.part(static_cast<int32_t>(first), n), Store::kAdd, codes);
    ops.copy(codes, gates);
    ops.sigmoid_gate(gates, codes);
    const Tensor added = {added_.device(), n, draft_vocab_, draft_vocab_};
    ops.linear(*outputs_, codes, Store::kOverwrite, added);
    for (int32_t i = 0; i < n; ++i) {
      ops.reduce_add(added.part(i, 1), logits.part(some[static_cast<size_t>(i)].row, 1));
    }
  }
}

}  // namespace ashlar
