// SPDX-License-Identifier: Apache-2.0
#pragma once
// The CPU device: splits each op into calls of the chosen kernels and spreads them over a pool.
//
// Work is cut along output columns and rows, never along a sum, so neither the number of threads nor the way a loop is
// stolen can change a bit.

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/thread_pool.h"
#include "device/cpu/attention/attention_plan.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/isa/kernels.h"
#include "device/cpu/linear/expert_plan.h"
#include "device/device.h"
#include "device/host_ops.h"
#include "device/ops.h"

namespace ashlar {

/// Throws Error("device", ...) if options.isa names a path that this machine cannot run.
std::unique_ptr<Ops> make_cpu_ops(const DeviceOptions& options);

namespace cpu {

class PackedWeight;
class ProjectedHeads;
struct AttentionRun;
struct WeightFormat;

class CpuOps final : public HostOps {
 public:
  CpuOps(const Kernels& kernels, int32_t threads, KvDType kv_dtype, KeptWeights kept = KeptWeights::kAuto,
         KeptWeights kept_for_drafts = KeptWeights::kAuto, PackedStore* store = nullptr);

  std::string name() const override { return "cpu"; }
  std::string isa() const override { return kernels_.isa; }
  int32_t threads() const override { return pool_.size(); }

  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  std::unique_ptr<Weight> pack(const WeightSource& source, WeightUse use = {}) override;
  int64_t kept_bytes(Scheme scheme, Products products, int64_t count) const override;
  std::unique_ptr<Weight> repack(const Weight& weight, Products products) override;
  std::unique_ptr<ExpertWeights> pack_experts(std::span<const ExpertSource> experts) override;

  void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) override;
  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override;
  void linear(const Weight& weight, Input in, Store store, Tensor out) override;
  void linear_argmax(const Weight& weight, Tensor x, int32_t* ids) override;
  void linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) override;
  void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) override;
  void reduce_add(Tensor partial, Tensor residual) override;

  void route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) override;
  void mix_experts(const ExpertWeights& weights, Tensor x, Routes routes, Tensor out) override;

  int64_t kv_page_bytes(const AttentionShape& shape) const override;
  void store_kv(Tensor qkv, const KvStore& to) override;
  void linear_kv(const Weight& weight, Input in, Tensor qkv, const KvStore& to) override;
  void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                 KvPlane plane) override;
  void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                 Tensor out) override;

  void self_attention(const SelfAttention& call, Tensor out) override;

  void sigmoid_gate(Tensor gate, Tensor x) override;
  void gelu_gate(Tensor gate, Tensor x) override;
  void gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) override;
  void short_conv(Tensor in, const ShortConv& conv, Tensor out) override;
  void grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                    Tensor out) override;
  void score_edges(const CandidateEdges& edges, Tensor out) override;
  void candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) override;

  void gather_rows(Tensor x, const int32_t* indices, Tensor out) override;
  void copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) override;
  void copy(Tensor x, Tensor out) override;
  void for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) override;

 private:
  /// Rows of one linear in the form its kernel wants, and which call they belong to. Apart from each other, since
  /// hardware fetches lines in pairs.
  struct alignas(256) PackedRows {
    Scratch memory;
    Scratch normed;  // what one block of rows is packed from
    uint64_t call = 0;
  };

  /// The highest value seen of a row, and its column.
  struct Highest {
    float value;
    int32_t column;
  };

  /// `weight` with its values, which read_row(row, to) decodes; on the pool.
  template <class ReadRow>
  PackedWeight packed(PackedWeight weight, const ReadRow& read_row);
  /// The format in which weights of k columns are kept for these products, which need `precision` and are stored as
  /// `stored`.
  const WeightFormat& format_of(DType precision, int64_t k, Products products, Numbers stored) const;
  PackedWeight pack_as(const WeightFormat& format, const WeightSource& source, bool gated);
  /// All that the panels depend on: the content of the parts, the format, and whether it is gated.
  uint64_t key_of(const WeightFormat& format, const WeightSource& source, bool gated);
  /// fn(row) or fn(row, worker) for all rows; on the pool if rows * cost_per_row (about nanoseconds) is worth sharing.
  template <class Fn>
  void for_rows(int32_t rows, int64_t cost_per_row, Fn&& fn);
  /// Whether a linear is cut by rows first, so that what a worker computed of its rows stays in its core's cache from
  /// op to op: worth it while reading a weight once a worker costs less than to fetch half of the rows from another
  /// core.
  bool keeps_rows(const PackedWeight& weight, int32_t blocks) const;
  /// How a product is cut into pieces: groups of blocks of rows times chunks of panels.
  struct Cut {
    int32_t block_group;
    int32_t panel_chunk;
    int32_t panel_chunks;
    int32_t pieces;
    bool alone;  ///< not worth the pool
  };
  /// Chunks are multiples of `together` panels.
  Cut cut(const PackedWeight& weight, const LinearCall& call, int32_t together) const;
  /// Lets the kernels know which panels of a product of one block of rows are the worker's share.
  void expect_share(const PackedWeight& weight, const Cut& cut, int32_t worker) const;
  /// Cuts the product of rows and weight into pieces and calls body(part, first_panel, worker) for each: rows of blocks
  /// [part.first_block, part.last_block) times part.panels panels from first_panel. The weight's pointers, out, its
  /// stride and add are for the body to fill in. Pieces begin at multiples of `together` panels.
  template <class Body>
  void for_pieces(const PackedWeight& weight, Input in, const Body& body, int32_t together = 1);
  /// The same for a call of begin_linear whose rows are packed, if its kernel wants that.
  template <class Body>
  void for_pieces(const PackedWeight& weight, LinearCall call, const Body& body, int32_t together = 1);
  /// The product of all rows and panels, in blocks of rows that suit the kernel and the workers.
  LinearCall begin_linear(const PackedWeight& weight, Input in);
  /// The first half of gated_mlp: activations to where the second half reads its rows, packed or not.
  void gate(const PackedWeight& gate_up, Input in, const LinearCall& next);
  /// out (=|+=) product of a call of begin_linear.
  void multiply(const PackedWeight& weight, const LinearCall& call, Store store, Tensor out);
  /// Packs the rows of `call` if its kernel wants that, but not a single block: each worker that gets a piece packs its
  /// own copy (pack_own), which is cheaper than to fetch it from another core.
  void pack_rows(const LinearKernels& kernels, LinearCall& call);
  /// Even blocks for all workers, where there is one for each.
  int32_t blocks_of(const LinearKernels& kernels, int32_t rows) const;
  /// Has every worker's PackedRows take a block of rows for this weight, since in a loop nothing may throw, and
  /// the other buffers of products what 64 rows need: steps with drafts grow by and by, and should allocate nothing.
  /// Not while an op runs.
  void make_room(const PackedWeight& weight);
  /// Cuts attention into the pieces that attend() runs.
  AttentionRun begin_attention(const ProjectedHeads& heads, const AttentionShape& shape, const Rows& rows,
                               Visibility visible, KvPlane plane, Tensor out);
  void attend(const AttentionRun& run);
  /// The same for attention: `floats` of scratch a worker.
  void make_attention_room(int64_t floats);
  /// From the Highest of one worker to those of the next.
  static int64_t highest_stride(int64_t rows);
  /// Whether the worker has not yet packed the rows of the current product.
  bool packs_own(const LinearCall& call, int32_t worker) const;
  void pack_own(const LinearKernels& kernels, LinearCall& call, int32_t worker);
  void pack_block(const LinearKernels& kernels, const LinearCall& call, int32_t block, int32_t worker, std::byte* to);

  /// out[copies of expert e] = x[copies of e] times weights[e], for all groups of expert_plan_.
  void grouped_linear(const std::vector<PackedWeight>& weights, Tensor x, Tensor out);
  /// out[columns] = what becomes of the gates and ups of a panel of one row, whose place is free afterwards.
  /// Puts the spans of recurrent rows into sequences_.
  void find_sequences(const Rows& rows, const StatePlane& states);
  void gate_panel(const ExpertGate& gate, float* products, int32_t columns, float* out) const;

  const Kernels& kernels_;
  const DType kv_dtype_;        ///< of pages as attention reads them
  const KvCodec* const codec_;  ///< null: they are kept so
  const KeptWeights kept_;
  const KeptWeights kept_for_drafts_;  ///< kAuto: in the format that is for drafts alone, if there is one
  PackedStore* const store_;
  ThreadPool pool_;
  Arena arena_;
  // Grow on demand and are kept: after the first call of a shape nothing allocates.
  std::vector<PackedRows> packed_rows_;  ///< of each worker
  uint64_t linears_ = 0;
  AttentionPlan plan_;
  Scratch attention_scratch_;
  int64_t attention_room_ = 0;  ///< floats of scratch that each worker has
  Scratch states_;
  Scratch heads_;                   ///< projected heads of a block of rows
  Scratch products_;                ///< of each worker: products that are used up where they arise
  Scratch activations_;             ///< of a gated MLP, all rows
  Scratch normed_;                  ///< rows of a product that takes them unpacked
  Scratch highest_;                 ///< of each worker: the Highest of each row
  std::vector<RowFold> folds_;      ///< of each row: those of its tiles
  Scratch delta_scratch_;           ///< of each worker
  std::vector<int32_t> sequences_;  ///< first row of each, and the number of rows
  ExpertPlan expert_plan_;
  Scratch expert_floats_;
};

template <class Fn>
void CpuOps::for_rows(int32_t rows, int64_t cost_per_row, Fn&& fn) {
  const auto call = [&fn](int32_t row, [[maybe_unused]] int32_t worker) {
    if constexpr (std::is_invocable_v<Fn, int32_t, int32_t>) {
      fn(row, worker);
    } else {
      fn(row);
    }
  };
  const int64_t cost = rows * cost_per_row;
  if (cost < kWorthSharing || pool_.size() == 1) {
    for (int32_t r = 0; r < rows; ++r) call(r, 0);
    return;
  }
  const int64_t pieces = std::clamp<int64_t>(2 * cost / kWorthSharing, 2, int64_t{4} * pool_.size());
  const auto chunk = static_cast<int32_t>((rows + pieces - 1) / pieces);
  pool_.run((rows + chunk - 1) / chunk, [&](int32_t item, int32_t worker) {
    for (int32_t r = item * chunk; r < std::min(rows, (item + 1) * chunk); ++r) call(r, worker);
  });
}

}  // namespace cpu
}  // namespace ashlar
