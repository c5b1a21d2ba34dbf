// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/cpu_ops.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>

#include "base/row_math.h"
#include "device/cpu/attention/head_finisher.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/isa/cpu_features.h"
#include "device/cpu/linear/linear_call.h"

namespace ashlar {

std::unique_ptr<Ops> make_cpu_ops(const DeviceOptions& options) {
  const std::string isa = options.isa.empty() ? cpu::runnable_isas().front() : options.isa;
  const cpu::Kernels& kernels = cpu::kernels_for(isa);
  return std::make_unique<cpu::CpuOps>(kernels, options.threads, options.kv_dtype, options.weights,
                                       options.drafter_weights, options.packed);
}

std::vector<std::string> isa_choices() { return cpu::runnable_isas(); }

namespace cpu {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kApart = 32;  // floats between what two workers write: hardware fetches lines in pairs
constexpr int64_t kReadByAll = int64_t{1} << 20;       // bytes of a weight that every worker may read whole
constexpr int32_t kArgmaxColumns = 4 * kPanelColumns;  // 16 rows of them stay in L1

}  // namespace

int64_t CpuOps::highest_stride(int64_t rows) {
  return round_up(rows, kCacheLine / static_cast<int64_t>(sizeof(Highest))) + kApart / 2;
}

CpuOps::CpuOps(const Kernels& kernels, int32_t threads, KvDType kv_dtype, KeptWeights kept, KeptWeights kept_for_drafts,
               PackedStore* store)
    : kernels_(kernels),
      kv_dtype_(kv_dtype == KvDType::kF32 ? DType::kF32 : DType::kBF16),
      codec_(kv_codec(kv_dtype)),
      kept_(kept),
      kept_for_drafts_(kept_for_drafts),
      store_(store),
      pool_(threads),
      packed_rows_(static_cast<size_t>(pool_.size())) {}

std::unique_ptr<Buffer> CpuOps::allocate(size_t bytes) { return std::make_unique<CpuBuffer>(bytes); }

void CpuOps::embed(const Weight& table, const int32_t* ids, float scale, Tensor out) {
  const PackedWeight& weight = as_packed(table);
  ASHLAR_CHECK_EQ(out.cols, weight.k());
  for (int32_t r = 0; r < out.rows; ++r) ASHLAR_CHECK(ids[r] >= 0 && ids[r] < weight.n());
  for_rows(out.rows, 2 * weight.k(), [&](int32_t r) { weight.read_row(ids[r], scale, out.row(r)); });
}

void CpuOps::rms_norm(Tensor x, const float* weight, float eps, Tensor out) {
  for_rows(x.rows, x.cols / 8, [&](int32_t r) { kernels_.rms_norm(x.row(r), weight, eps, x.cols, out.row(r)); });
}

int32_t CpuOps::blocks_of(const LinearKernels& kernels, int32_t rows) const {
  const int32_t blocks = (rows + kernels.block_rows - 1) / kernels.block_rows;
  return blocks >= pool_.size() ? static_cast<int32_t>(round_up(blocks, pool_.size())) : blocks;
}

void CpuOps::make_room(const PackedWeight& weight) {
  constexpr int64_t kRows = 64;
  const LinearKernels& kernels = kernels_of(kernels_, weight);
  const auto room = [&](const LinearKernels& of, int64_t k, int64_t rows) {
    if (of.packed_bytes == nullptr) return size_t{0};
    const int32_t blocks = blocks_of(of, static_cast<int32_t>(rows));
    return static_cast<size_t>(round_up(of.packed_bytes(static_cast<int32_t>(k)), kPackedAlignment) * blocks);
  };
  const int64_t k = weight.k();
  for (PackedRows& own : packed_rows_) {
    own.memory.bytes(room(kernels, k, 1));
    own.normed.floats(k * kernels.block_rows);
  }
  packed_rows_[0].memory.bytes(room(kernels, k, kRows));
  if (kernels.pack_from > 1) normed_.floats(k * kRows);
  products_.floats((std::max(kArgmaxColumns, RowFold::kTile) * kRows + kApart) * pool_.size());
  highest_.bytes(sizeof(Highest) * static_cast<size_t>(highest_stride(kRows) * pool_.size()));
  if (!weight.gated()) return;
  const int64_t width = weight.n() / 2;
  activations_.bytes(std::max(room(kernels, width, kRows), static_cast<size_t>(width * kRows) * sizeof(float)));
}

void CpuOps::pack_rows(const LinearKernels& kernels, LinearCall& call) {
  if (call.packed_block == 0 || call.blocks == 1) return;
  std::byte* to = packed_rows_[0].memory.bytes(static_cast<size_t>(call.packed_block * call.blocks));
  call.packed = to;
  for_rows(call.blocks, int64_t{kernels.block_rows} * call.k / 8, [&](int32_t block, int32_t worker) {
    pack_block(kernels, call, block, worker, to + block * call.packed_block);
  });
}

void CpuOps::pack_block(const LinearKernels& kernels, const LinearCall& call, int32_t block, int32_t worker,
                        std::byte* to) {
  const int32_t rows = call.block_row(block + 1) - call.block_row(block);
  const float* from = call.x + call.block_row(block) * call.x_stride;
  const auto pack = call.blocks > 1 && kernels.pack_several != nullptr ? kernels.pack_several : kernels.pack;
  if (call.norm == nullptr) return pack(from, call.x_stride, rows, call.k, to);
  float* normed = packed_rows_[static_cast<size_t>(worker)].normed.floats(int64_t{kernels.block_rows} * call.k);
  for (int32_t r = 0; r < rows; ++r) {
    kernels_.rms_norm(from + r * call.x_stride, call.norm, call.eps, call.k, normed + int64_t{r} * call.k);
  }
  pack(normed, call.k, rows, call.k, to);
}

bool CpuOps::packs_own(const LinearCall& call, int32_t worker) const {
  return call.packed == nullptr && call.packed_block != 0 && packed_rows_[static_cast<size_t>(worker)].call != linears_;
}

void CpuOps::pack_own(const LinearKernels& kernels, LinearCall& call, int32_t worker) {
  if (call.packed != nullptr || call.packed_block == 0) return;
  PackedRows& own = packed_rows_[static_cast<size_t>(worker)];
  std::byte* to = own.memory.bytes(static_cast<size_t>(call.packed_block));
  if (packs_own(call, worker)) pack_block(kernels, call, 0, worker, to);
  own.call = linears_;
  call.packed = to;
}

bool CpuOps::keeps_rows(const PackedWeight& weight, int32_t blocks) const {
  return pool_.size() > 1 && blocks >= pool_.size() && weight.panels() * weight.panel_bytes() <= kReadByAll;
}

LinearCall CpuOps::begin_linear(const PackedWeight& weight, Input in) {
  const Tensor x = in.x;
  ASHLAR_CHECK_EQ(x.cols, weight.k());
  const LinearKernels& kernels = kernels_of(kernels_, weight);
  LinearCall call = whole_call(weight, kernels, x, {});
  call.blocks = blocks_of(kernels, x.rows);
  call.packed_block = x.rows == 0 ? 0 : packed_block_bytes(kernels, call);
  call.norm = in.norm;
  call.eps = in.eps;
  if (in.norm != nullptr && call.packed_block == 0) {
    const Tensor normed = {normed_.floats(int64_t{x.rows} * x.cols), x.rows, x.cols, x.cols};
    rms_norm(x, in.norm, in.eps, normed);
    call.x = normed.row(0);
    call.x_stride = normed.stride;
  }
  return call;
}

template <class Body>
void CpuOps::for_pieces(const PackedWeight& weight, Input in, const Body& body, int32_t together) {
  LinearCall call = begin_linear(weight, in);
  pack_rows(kernels_of(kernels_, weight), call);
  for_pieces(weight, call, body, together);
}

// Groups of blocks of rows times groups of panels, about eight pieces a worker so that stealing evens out.
CpuOps::Cut CpuOps::cut(const PackedWeight& weight, const LinearCall& call, int32_t together) const {
  const bool alone = linear_cost(weight, call.rows) < kWorthWaking;
  const int32_t workers = alone ? 1 : pool_.size();
  const int32_t per_panel = std::max(1, kRowsPerPanel / kernels_of(kernels_, weight).block_rows);
  const bool by_rows = keeps_rows(weight, call.blocks);
  const int32_t block_group = by_rows ? std::min(per_panel, call.blocks / workers) : per_panel;
  const int32_t groups = (call.blocks + block_group - 1) / block_group;
  const int32_t panels = weight.panels();
  const int32_t wanted = std::max(1, panels * groups / (workers == 1 ? 1 : workers * 8));
  const auto chunk = static_cast<int32_t>(round_up(wanted, together));
  const int32_t chunks = (panels + chunk - 1) / chunk;
  return {block_group, chunk, chunks, groups * chunks, alone};
}

void CpuOps::expect_share(const PackedWeight& weight, const Cut& cut, int32_t worker) const {
  if (kernels_.expect == nullptr) return;
  const auto panel = [&](int32_t chunk) { return weight.panel(std::min(chunk * cut.panel_chunk, weight.panels())); };
  kernels_.expect(panel(pool_.first_of_share(cut.pieces, worker)), panel(pool_.first_of_share(cut.pieces, worker + 1)));
}

template <class Body>
void CpuOps::for_pieces(const PackedWeight& weight, LinearCall call, const Body& body, int32_t together) {
  if (call.rows == 0) return;
  ++linears_;
  const LinearKernels& kernels = kernels_of(kernels_, weight);
  const Cut cut = this->cut(weight, call, together);
  const int32_t panels = weight.panels();
  // By value: a worker then fetches what it needs from the caller's core at once, not pointer by pointer.
  const auto piece = [=, this, &kernels, &weight](int32_t item, int32_t worker) {
    LinearCall part = call;
    if (packs_own(part, worker)) expect_share(weight, cut, worker);
    pack_own(kernels, part, worker);
    part.first_block = item / cut.panel_chunks * cut.block_group;
    part.last_block = std::min(part.first_block + cut.block_group, call.blocks);
    const int32_t panel = item % cut.panel_chunks * cut.panel_chunk;
    part.panels = std::min(cut.panel_chunk, panels - panel);
    body(part, panel, worker);
  };
  if (!cut.alone) return pool_.run(cut.pieces, piece);
  for (int32_t item = 0; item < cut.pieces; ++item) piece(item, 0);
}

void CpuOps::multiply(const PackedWeight& weight, const LinearCall& call, Store store, Tensor out) {
  ASHLAR_CHECK(!weight.gated());
  ASHLAR_CHECK_EQ(out.cols, weight.n());
  ASHLAR_CHECK_EQ(call.rows, out.rows);
  for_pieces(
      weight, call,
      [=, all = Panels(weight, kernels_of(kernels_, weight), weight.n())](LinearCall part, int32_t panel, int32_t) {
        part.out = out.row(0) + panel * kPanelColumns;
        part.out_stride = out.stride;
        part.add = store == Store::kAdd;
        all.multiply(panel, part.panels, part);
      });
}

void CpuOps::linear(const Weight& weight, Input in, Store store, Tensor out) {
  const PackedWeight& w = as_packed(weight);
  LinearCall call = begin_linear(w, in);
  pack_rows(kernels_of(kernels_, w), call);
  multiply(w, call, store, out);
}

// Pieces are whole heads, where heads are whole panels: what a worker has computed of one it finishes at once.
void CpuOps::linear_kv(const Weight& weight, Input in, Tensor qkv, const KvStore& to) {
  const PackedWeight& w = as_packed(weight);
  const int32_t head_dim = to.shape.head_dim;
  if (head_dim % kPanelColumns != 0) return Ops::linear_kv(weight, in, qkv, to);
  ASHLAR_CHECK(!w.gated());
  ASHLAR_CHECK_EQ(qkv.cols, w.n());
  ASHLAR_CHECK_EQ(qkv.rows, in.x.rows);
  ASHLAR_CHECK_EQ(qkv.rows, to.rows.n);
  const HeadFinisher heads(kernels_, kv_dtype_, codec_, ProjectedHeads::of(to.shape, qkv), to);
  const int32_t together = head_dim / kPanelColumns;
  for_pieces(
      w, in,
      [=, &heads, all = Panels(w, kernels_of(kernels_, w), w.n())](LinearCall part, int32_t panel, int32_t) {
        const int32_t last = panel + part.panels;
        const int32_t end = part.block_row(part.last_block);
        for (; panel < last; panel += together) {
          part.out = qkv.row(0) + panel * kPanelColumns;
          part.out_stride = qkv.stride;
          all.multiply(panel, together, part);
          for (int32_t r = part.block_row(part.first_block); r < end; ++r) heads.finish(r, panel / together);
        }
      },
      together);
}

void CpuOps::gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) {
  const PackedWeight& w = as_packed(gate_up);
  const PackedWeight& d = as_packed(down);
  ASHLAR_CHECK(w.gated() && !d.gated());
  ASHLAR_CHECK_EQ(w.n(), 2 * d.k());
  LinearCall next = begin_linear(d, Tensor{nullptr, in.x.rows, d.k(), d.k()});
  // Both products then cut their rows into the same blocks.
  const LinearKernels& kernels = kernels_of(kernels_, d);
  const bool packs = kernels.gated_pack != nullptr && &kernels_of(kernels_, w) == &kernels;
  if (packs) {
    next.packed = activations_.bytes(static_cast<size_t>(next.packed_block * next.blocks));
  } else {
    next.x = activations_.floats(int64_t{d.k()} * in.x.rows);
  }
  gate(w, in, next);
  if (!packs) pack_rows(kernels, next);
  multiply(d, next, Store::kAdd, out);
}

void CpuOps::gate(const PackedWeight& gate_up, Input in, const LinearCall& next) {
  const LinearKernels& kernels = kernels_of(kernels_, gate_up);
  const Panels all(gate_up, kernels, gate_up.panels() * kPanelColumns);
  if (next.packed != nullptr) {
    constexpr int32_t kTogether = 2;  // panels: the activation of the last runs alone
    const int64_t panel_packed = kernels.packed_bytes(kGateColumns);
    const auto body = [=, run = kernels.gated_pack](LinearCall part, int32_t panel, int32_t) {
      all.take(panel, part.panels, part);
      run({part, const_cast<std::byte*>(next.packed) + panel * panel_packed, next.packed_block});
    };
    return for_pieces(gate_up, in, body, kTogether);
  }
  const int64_t floats = int64_t{kPanelColumns} * in.x.rows + kApart;  // a panel's products, which stay in L1
  float* products = products_.floats(floats * pool_.size());
  for_pieces(gate_up, in, [=, run = kernels_.silu_mul](LinearCall part, int32_t panel, int32_t worker) {
    const int32_t last = panel + part.panels;
    part.out = products + worker * floats;
    part.out_stride = kPanelColumns;
    for (; panel < last; ++panel) {
      all.multiply(panel, 1, part);
      GateCall gate;
      gate.columns = std::min(kGateColumns, next.k - panel * kGateColumns);
      gate.out_stride = next.x_stride;
      gate.fetches = part.last_block == part.first_block + 1;  // with more, products leave memory time enough
      for (int32_t block = part.first_block; block < part.last_block; ++block) {
        const int32_t row = part.block_row(block);
        gate.rows = part.block_row(block + 1) - row;
        gate.products = part.out + int64_t{row} * kPanelColumns;
        gate.out = const_cast<float*>(next.x) + row * next.x_stride + int64_t{panel} * kGateColumns;
        run(gate);
      }
    }
  });
}

void CpuOps::linear_argmax(const Weight& weight, Tensor x, int32_t* ids) {
  const PackedWeight& w = as_packed(weight);
  ASHLAR_CHECK(!w.gated());
  constexpr int32_t kPanels = kArgmaxColumns / kPanelColumns;
  const int64_t floats = int64_t{kArgmaxColumns} * x.rows + kApart;
  float* products = products_.floats(floats * pool_.size());
  const int64_t stride = highest_stride(x.rows);
  auto* found =
      reinterpret_cast<Highest*>(highest_.bytes(sizeof(Highest) * static_cast<size_t>(stride * pool_.size())));
  std::fill_n(found, stride * pool_.size(), Highest{-std::numeric_limits<float>::infinity(), -1});
  const auto better = [](const Highest& a, const Highest& b) {
    return a.value > b.value || (a.value == b.value && a.column < b.column);
  };
  const Panels all(w, kernels_of(kernels_, w), w.n());
  for_pieces(w, x, [=, highest = kernels_.highest](LinearCall part, int32_t panel, int32_t worker) {
    const int32_t last = panel + part.panels;
    part.out = products + worker * floats;
    part.out_stride = kArgmaxColumns;
    for (; panel < last; panel += kPanels) {
      all.multiply(panel, std::min(kPanels, last - panel), part);
      for (int32_t row = part.block_row(part.first_block); row < part.block_row(part.last_block); ++row) {
        const float* values = part.out + int64_t{row} * kArgmaxColumns;
        Highest& best = found[worker * stride + row];
        Highest here{highest(values, part.columns), panel * kPanelColumns};
        if (!better(here, best)) continue;
        here.column += first_of(values, part.columns, here.value);
        if (better(here, best)) best = here;
      }
    }
  });
  for (int32_t row = 0; row < x.rows; ++row) {
    Highest best = found[row];
    for (int32_t worker = 1; worker < pool_.size(); ++worker) {
      if (better(found[worker * stride + row], best)) best = found[worker * stride + row];
    }
    ids[row] = best.column;
  }
}

void CpuOps::linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) {
  const PackedWeight& w = as_packed(weight);
  ASHLAR_CHECK(!w.gated());
  constexpr int32_t kPanels = RowFold::kTile / kPanelColumns;
  const int64_t floats = int64_t{RowFold::kTile} * x.rows + kApart;
  float* products = products_.floats(floats * pool_.size());
  const int32_t tiles = (w.panels() + kPanels - 1) / kPanels;
  if (folds_.size() < static_cast<size_t>(tiles) * x.rows) folds_.resize(static_cast<size_t>(tiles) * x.rows);
  RowFold* folds = folds_.data();
  const Panels all(w, kernels_of(kernels_, w), w.n());
  for_pieces(
      w, x,
      [=](LinearCall part, int32_t panel, int32_t worker) {
        const int32_t last = panel + part.panels;
        part.out = products + worker * floats;
        part.out_stride = RowFold::kTile;
        for (; panel < last; panel += kPanels) {
          all.multiply(panel, std::min(kPanels, last - panel), part);
          const int32_t column = panel * kPanelColumns;
          for (int32_t row = part.block_row(part.first_block); row < part.block_row(part.last_block); ++row) {
            float* values = part.out + int64_t{row} * RowFold::kTile;
            if (without >= column && without < column + part.columns) {
              values[without - column] = -std::numeric_limits<float>::infinity();
            }
            folds[int64_t{row} * tiles + panel / kPanels] = RowFold(values, column, part.columns);
          }
        }
      },
      kPanels);
  constexpr int64_t kMerge = 25;  // nanoseconds
  for_rows(x.rows, kMerge * tiles, [=](int32_t row) {
    RowFold fold;
    for (int32_t tile = 0; tile < tiles; ++tile) fold.add(folds[int64_t{row} * tiles + tile]);
    out[row] = fold.finish();
  });
}

void CpuOps::reduce_add(Tensor partial, Tensor residual) {
  ASHLAR_CHECK(partial.rows == residual.rows && partial.cols == residual.cols);
  for_rows(residual.rows, residual.cols / 8, [&](int32_t r) {
    float* to = residual.row(r);
    const float* from = partial.row(r);
    for (int32_t i = 0; i < residual.cols; ++i) to[i] += from[i];
  });
}

void CpuOps::for_each(int32_t n, void (*fn)(void*, int32_t), void* context) {
  pool_.run_throwing(n, [=](int32_t item) { fn(context, item); });
}

}  // namespace cpu
}  // namespace ashlar
