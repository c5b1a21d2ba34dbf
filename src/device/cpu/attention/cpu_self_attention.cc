// SPDX-License-Identifier: Apache-2.0
// The attention of a layer as one op, for as many rows as fit one block.
//
// In rows, what two workers write would alternate within memory pages, and hardware prefetchers of each core would take
// the other's lines away. So heads are kept by key/value head, in pages of their own, and answers go where the output
// projection wants its rows packed.

#include <algorithm>

#include "device/cpu/attention/attention_run.h"
#include "device/cpu/attention/head_finisher.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/linear/linear_call.h"

namespace ashlar::cpu {

void CpuOps::self_attention(const SelfAttention& call, Tensor out) {
  const PackedWeight& projection = as_packed(call.projection);
  const PackedWeight& output = as_packed(call.output);
  const AttentionShape& shape = call.store.shape;
  const Rows& rows = call.store.rows;
  const LinearKernels& kernels = kernels_of(kernels_, projection);
  const int32_t groups = shape.n_kv_heads;
  const bool fits = rows.n > 0 && rows.n <= kernels.block_rows && shape.head_dim % kPanelColumns == 0;
  // Every worker has the same number of key/value heads and attends to its own. One alone gains nothing.
  const bool even = pool_.size() > 1 && groups % pool_.size() == 0;
  if (!fits || !even || linear_cost(projection, rows.n) < kWorthWaking) {
    return Ops::self_attention(call, out);
  }
  ASHLAR_CHECK(!projection.gated());
  ASHLAR_CHECK_EQ(projection.n(), shape.q_width() + 2 * shape.kv_width());
  ASHLAR_CHECK_EQ(rows.n, call.in.x.rows);
  ASHLAR_CHECK(call.copy.rows == 0 || (call.copy.rows == rows.n && call.copy.cols == call.in.x.cols));

  const ProjectedHeads heads(shape, rows.n,
                             heads_.floats(groups * ProjectedHeads::group_floats(shape, kernels.block_rows)));
  const HeadFinisher finisher(kernels_, kv_dtype_, codec_, heads, call.store);
  AttentionRun run = begin_attention(heads, shape, rows, call.visible, call.store.plane, call.mixed);
  const LinearCall product = begin_linear(projection, call.in);
  LinearCall next = begin_linear(output, call.mixed);
  run.finish_packed = kernels_of(kernels_, output).finish_packed;
  if (run.finish_packed != nullptr && next.blocks == 1) {
    run.packed = activations_.bytes(static_cast<size_t>(next.packed_block));
    next.packed = run.packed;
  }

  ++linears_;
  const Panels panels(projection, kernels, projection.n());
  const int32_t panels_of_head = shape.head_dim / kPanelColumns;
  const auto project = [&](int32_t head, LinearCall part) {
    const ProjectedHeads::Head to = heads.head(head);
    part.out = to.row(0);
    part.out_stride = to.stride;
    panels.multiply(head * panels_of_head, panels_of_head, part);
    for (int32_t r = 0; r < rows.n; ++r) finisher.finish(r, head);
  };
  const int32_t queries = shape.n_heads / groups;
  const Cut cut_next = cut(output, next, 1);
  pool_.run(groups, [&](int32_t group, int32_t worker) {
    const int32_t first = group * queries;
    if (kernels_.expect != nullptr) {
      kernels_.expect(projection.panel(first * panels_of_head), projection.panel((first + queries) * panels_of_head));
    }
    LinearCall packed = product;
    pack_own(kernels, packed, worker);
    // Its share of the rows, which are at hand now.
    for (int32_t r = call.copy.rows * group / groups; r < call.copy.rows * (group + 1) / groups; ++r) {
      std::copy_n(call.in.x.row(r), call.copy.cols, call.copy.row(r));
    }
    for (int32_t head = first; head < first + queries; ++head) project(head, packed);
    project(shape.n_heads + group, packed);
    project(shape.n_heads + groups + group, packed);
    if (plan_.split) return;
    expect_share(output, cut_next, worker);
    for (size_t b = 0; b < plan_.blocks.size(); ++b) {
      if (plan_.blocks[b].head / queries == group) run.whole_block(static_cast<int32_t>(b), worker);
    }
  });
  if (plan_.split) attend(run);
  multiply(output, next, Store::kAdd, out);
}

}  // namespace ashlar::cpu
