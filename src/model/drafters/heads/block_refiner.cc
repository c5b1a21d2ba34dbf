// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/heads/block_refiner.h"

#include <algorithm>
#include <functional>

#include "device/tensor_room.h"

namespace ashlar {
namespace {

struct RefinerNames {
  const char* prefix;
  const char* codes;
  const char* mixer;
  const char *gate, *up, *down;
  const char* outputs;
};

constexpr RefinerNames kSpeculators = {"refiner_head.", "token_embed", "mix_l",  "mlp_gate",
                                       "mlp_up",        "mlp_down",    "readout"};
constexpr RefinerNames kOwn = {"xpress_head.", "w1", "mix.L", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "w2"};

// Stored as [channel, position, position before]: as rows of a convolution's weights, whose t-th tap is the position t
// before. What is above the diagonal was never trained, and stays out.
std::vector<float> bind_mixer(WeightBinder& binder, const std::string& name, int64_t rank, int64_t block) {
  const std::vector<float> stored = binder.values(name, {rank, block, block});
  std::vector<float> taps(stored.size());
  for (int64_t c = 0; c < rank; ++c) {
    for (int64_t k = 0; k < block; ++k) {
      for (int64_t t = 0; t <= k; ++t) {
        taps[static_cast<size_t>((k * block + t) * rank + c)] =
            stored[static_cast<size_t>((c * block + k) * block + k - t)];
      }
    }
  }
  return taps;
}

}  // namespace

BlockRefiner::BlockRefiner(WeightBinder& binder, const std::string& prefix, const DflashConfig& config)
    : config_(*config.refiner), hidden_(config.stack.hidden), block_(config.block_size) {
  const RefinerNames& names = config.own_vocabulary ? kSpeculators : kOwn;
  const std::string base = prefix + names.prefix;
  const int32_t rank = config_.rank;
  narrow_ = binder.linear({{base + "down_h", rank}}, hidden_, false);
  narrow_mean_ = binder.linear({{base + "down_g", rank}}, hidden_, false);
  const WeightPart in = binder.matrix(base + "in_proj.weight", rank, int64_t{3} * rank);
  const auto columns = [&](int64_t piece) { return binder.linear({in.block(0, rank, piece * rank, rank)}); };
  of_hidden_ = columns(0);
  of_mean_ = columns(1);
  of_code_ = columns(2);
  codes_ = binder.vocabulary({base + names.codes, config.vocab}, rank);
  gate_up_ = binder.gated({{base + names.gate, config_.inner}, {base + names.up, config_.inner}}, rank, false);
  down_ = binder.linear({{base + names.down, rank}}, config_.inner, false);
  outputs_ = binder.linear({{base + names.outputs, config.draft_vocab}}, rank, false);
  const std::vector<float> mixer = bind_mixer(binder, base + names.mixer, rank, block_);
  mixer_ = {binder.ops(), static_cast<int64_t>(mixer.size())};
  mixer_.upload(mixer);
  nothing_ = {binder.ops(), int64_t{block_} * rank};
}

size_t BlockRefiner::bytes_read() const {
  size_t sum = 0;
  for (const auto* weight : {&of_code_, &gate_up_, &down_, &outputs_}) sum += (*weight)->bytes();
  return sum;
}

int64_t BlockRefiner::workspace(const RefinerConfig& config, int32_t hidden, int32_t block, int32_t draft_vocab,
                                int32_t rows) {
  return int64_t{rows} * (int64_t{draft_vocab} + hidden + block + int64_t{config.rank} * (block + 8));
}

void BlockRefiner::reserve(Ops& ops, int32_t rows) {
  places_ = {ops, int64_t{3} * rows};
  ids_ = {ops, int64_t{2} * rows};
  host_ids_.reserve(static_cast<size_t>(places_.size()));
  shares_ = {ops, int64_t{rows} * block_};
  host_shares_.reserve(static_cast<size_t>(shares_.size()));
  const DType type = ops.activation_type();
  const auto lay_out = [&](TensorRoom room) {
    for (Tensor* t : {&fixed_, &code_rows_, &x_, &y_}) *t = room.take(rows, config_.rank, type);
    hidden_rows_ = room.take(rows, hidden_, type);
    weights_ = room.take(rows, block_ * config_.rank);
    return room.size();
  };
  storage_ = place_tensors(ops, lay_out);
}

void BlockRefiner::begin(Ops& ops, Tensor hidden, std::span<const Block> blocks) {
  const int32_t n = rows_ = hidden.rows;
  const auto rows = static_cast<size_t>(n);
  host_ids_.assign(3 * rows, 0);
  host_shares_.assign(rows * static_cast<size_t>(block_), 0);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    ASHLAR_CHECK_LE(block.rows, block_);
    for (int32_t i = 0; i < block.rows; ++i) {
      const auto row = static_cast<size_t>(block.first + i);
      host_ids_[row] = static_cast<int32_t>(b);                  // rows of a block see each other
      host_ids_[rows + row] = i;                                 // place in the block
      host_ids_[2 * rows + row] = block.first + block.rows - 1;  // where the block's mean is
    }
    // The last row of a block sees all of it: there the sum of equal parts is the mean.
    const auto last = static_cast<size_t>(block.first + block.rows - 1) * static_cast<size_t>(block_);
    std::fill_n(host_shares_.begin() + static_cast<std::ptrdiff_t>(last), block.rows,
                1.0F / static_cast<float>(block.rows));
  }
  places_.upload(host_ids_);
  shares_.upload(host_shares_);

  PassKey key(&places_, n);
  key.add(hidden);
  const auto pass = [&] {
    const int32_t rank = config_.rank;
    const int32_t* const blocks_of = places_.device();
    const Tensor fixed = fixed_.narrow(n), x = x_.narrow(n), means = y_.narrow(n);
    const Tensor shares = {shares_.device(), n, block_, block_};
    const Tensor mixer = {mixer_.device(), block_, block_ * rank, int64_t{block_} * rank};
    ops.linear(*narrow_, hidden, Store::kOverwrite, x);
    ops.linear(*of_hidden_, x, Store::kOverwrite, fixed);
    ops.linear(*narrow_mean_, hidden, Store::kOverwrite, x);
    ops.grouped_conv(x, shares, {block_, rank, nothing_.device()}, blocks_of, Store::kOverwrite, means);
    ops.gather_rows(means, blocks_of + 2 * n, x);
    ops.linear(*of_mean_, x, Store::kAdd, fixed);
    ops.gather_rows(mixer, blocks_of + n, weights_.narrow(n));
  };
  ops.run_pass(key, std::ref(pass));
}

Tensor BlockRefiner::some_of(Ops& ops, Tensor hidden, std::span<const int32_t> rows) {
  ids_.upload(rows);
  const Tensor out = hidden_rows_.narrow(static_cast<int32_t>(rows.size()));
  ops.gather_rows(hidden, ids_.device(), out);
  return out;
}

void BlockRefiner::correct(Ops& ops, std::span<const int32_t> before, std::span<const int32_t> wanted, Tensor out) {
  const int32_t n = rows_;
  ASHLAR_CHECK_EQ(static_cast<int32_t>(before.size()), n);
  host_ids_.assign(before.begin(), before.end());
  host_ids_.insert(host_ids_.end(), wanted.begin(), wanted.end());
  ids_.upload(host_ids_);
  PassKey key(&ids_, n);
  key.add(out);
  const auto pass = [&] {
    const Tensor codes = code_rows_.narrow(n), x = x_.narrow(n), y = y_.narrow(n);
    ops.embed(*codes_, ids_.device(), 1.0F, codes);
    ops.copy(fixed_.narrow(n), x);
    ops.linear(*of_code_, codes, Store::kAdd, x);
    ops.copy(x, y);
    ops.grouped_conv(x, weights_.narrow(n), {block_, 1, nothing_.device()}, places_.device(), Store::kAdd, y);
    ops.gated_mlp(*gate_up_, *down_, y, y);
    const Tensor some = code_rows_.narrow(out.rows);
    ops.gather_rows(y, ids_.device() + n, some);
    ops.linear(*outputs_, some, Store::kOverwrite, out);
  };
  ops.run_pass(key, std::ref(pass));
}

}  // namespace ashlar
