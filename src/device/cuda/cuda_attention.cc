// SPDX-License-Identifier: Apache-2.0
// Ops of attention and of mixtures of experts.

#include <algorithm>

#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {
namespace {

static_assert(sizeof(Branch) == sizeof(BranchTable) && offsetof(Branch, slots) == offsetof(BranchTable, slots) &&
              offsetof(Branch, n) == offsetof(BranchTable, n));

constexpr size_t kSegmentBytes = size_t{256} << 20;  // for what lies between two kernels of attention, at most
// What lies between two products of a mixture, at most, and as much again of tiles that choices do not fill. Fewer rows
// at a time read every expert's weights once more.
constexpr int64_t kMixedBytes = int64_t{384} << 20;
// Choices of an expert, on average, from which on rows are brought to the places of large tiles first.
constexpr int32_t kGatheredChoices = 32;

HeadsCall heads_of(const AttentionShape& shape, KvNumbers numbers, KvPlane plane) {
  HeadsCall call;
  call.numbers = numbers;
  call.q_heads = shape.n_heads;
  call.n_kv_heads = shape.n_kv_heads;
  call.head_dim = shape.head_dim;
  call.kv = reinterpret_cast<char*>(plane.base);
  call.page_stride = plane.page_stride;
  return call;
}

HeadsCall heads_of(Tensor qkv, const AttentionShape& shape, const Rows& rows, KvNumbers numbers, KvPlane plane) {
  ASHLAR_CHECK(qkv.dtype == DType::kBF16);
  ASHLAR_CHECK(shape.head_dim <= kMaxHeadDim && shape.head_dim % 2 == 0);
  HeadsCall call = heads_of(shape, numbers, plane);
  call.qkv = qkv.data;
  call.stride = qkv.stride;
  call.rows = rows.n;
  call.positions = rows.positions;
  call.tables = rows.tables;
  call.page_tables = rows.page_tables;
  call.without_kv = rows.without_kv;
  call.scratch_slots = rows.scratch_slots;
  call.branches = reinterpret_cast<const Branch*>(rows.branch_tables);
  return call;
}

}  // namespace

int64_t CudaOps::kv_page_bytes(const AttentionShape& shape) const {
  if (codec_ != nullptr) codec_->check(shape.head_dim);
  return cuda::kv_page_bytes(kv_numbers_, shape.n_kv_heads, shape.head_dim);
}

void CudaOps::store_kv(Tensor qkv, const KvStore& to) {
  if (to.rows.n == 0) return;
  StoreCall call;
  call.heads = heads_of(qkv, to.shape, to.rows, kv_numbers_, to.plane);
  call.heads.q_heads = qkv.cols / to.shape.head_dim - 2 * to.shape.n_kv_heads;
  call.q_norm = to.q_norm;
  call.k_norm = to.k_norm;
  call.eps = to.eps;
  call.cos = to.rope.cos;
  call.sin = to.rope.sin;
  call.rotary_dim = to.rope.rotary_dim;
  call.max_position = to.rope.max_position;
  call.query_scales = to.rope.query_scales;
  max_position_ = std::max(max_position_, to.rope.max_position);
  cuda::store_kv(memory_.stream(), call);
  check_launch("store_kv");
}

void CudaOps::commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                        KvPlane plane) {
  if (branch.n == 0) return;
  cuda::commit_kv(memory_.stream(), heads_of(shape, kv_numbers_, plane), {branch.first, branch.n, branch.slots},
                  page_table);
  check_launch("commit_kv");
}

void CudaOps::attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                        Tensor out) {
  if (rows.n == 0) return;
  ASHLAR_CHECK(out.dtype == DType::kBF16);
  AttentionCall call;
  call.heads = heads_of(q, shape, rows, kv_numbers_, plane);
  call.begin = visible.begin;
  call.end = visible.end;
  call.scale = shape.scale;
  call.sinks = shape.sinks;
  call.out = out.data;
  call.out_stride = out.stride;
  const int32_t segments = max_position_ / kSegment + 1;  // the own key of a row without KV may be one more
  const size_t extents =
      static_cast<size_t>(rows.n) * static_cast<size_t>(shape.n_heads) * static_cast<size_t>(segments);
  if (segments > 1 && splits_segments(call.heads) && extents * sizeof(float) * kMaxHeadDim < kSegmentBytes) {
    call.max_segments = segments;
    const size_t partial = extents * static_cast<size_t>(shape.head_dim);
    call.partial = static_cast<float*>(segments_.reserve(sizeof(float) * (partial + 2 * extents)));
    call.extents = call.partial + partial;
    // Zeros from the start, and again after each call.
    call.arrivals = static_cast<int32_t*>(
        arrivals_.reserve(sizeof(int32_t) * static_cast<size_t>(rows.n) * static_cast<size_t>(shape.n_heads)));
  }
  if (hopper_multiprocessors_ != 0) {
    call.wide_rows = attention_hopper(memory_.stream(), call, hopper_multiprocessors_);
    check_launch("attention of many rows");
  }
  cuda::attention(memory_.stream(), call);
  check_launch("attention");
}

void CudaOps::visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) {
  if (rows.n == 0) return;
  cuda::visibility(memory_.stream(), {rows.n, rows.positions, rows.tables, rows.block_ends, rows.first_keys,
                                      rows.without_kv, window, causal, begin, end});
  check_launch("visibility");
}

void CudaOps::route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) {
  ASHLAR_CHECK(routing.top_k == routes.top_k && routing.top_k <= logits.cols && logits.dtype == DType::kF32);
  if (logits.rows == 0) return;
  RouteCall call;
  call.logits = {logits.data, logits.rows, logits.cols, logits.stride, true};
  call.bias = factors.bias;
  call.expert_scale = factors.scale;
  call.sigmoid = routing.score == Routing::Score::kSigmoid;
  call.n_groups = routing.n_groups;
  call.top_groups = routing.top_groups;
  call.top_k = routing.top_k;
  call.normalise = routing.normalise;
  call.scale = routing.scale;
  call.experts = routes.experts;
  call.weights = routes.weights;
  cuda::route(memory_.stream(), call);
  check_launch("route");
}

void CudaOps::mix_experts(const ExpertWeights& weights, Tensor x, Routes routes, Tensor out) {
  const auto& experts = own_weight<CudaExperts>(weights);
  ASHLAR_CHECK(x.dtype == DType::kBF16 && out.dtype == DType::kBF16);
  ASHLAR_CHECK(x.cols == experts.hidden() && out.cols == experts.hidden());
  // Answers in fp32 and rows of x in bf16, gates and ups, and what they become. Products of fp32 take a choice a block.
  const int64_t of_choice = int64_t{6} * experts.hidden() + int64_t{experts.gates_apart() ? 8 : 2} * experts.width();
  const auto most = static_cast<int32_t>(
      std::clamp<int64_t>(kMixedBytes / (of_choice * routes.top_k), 1, std::max(65535 / routes.top_k, 1)));
  for (int32_t first = 0; first < x.rows; first += most) {
    const int32_t n = std::min(most, x.rows - first);
    const Routes some = {routes.top_k, routes.experts_of(first), routes.weights_of(first)};
    mix_some(experts, x.part(first, n), some, out.part(first, n));
  }
}

// Every choice of a row has a row of its own between the products, or, where experts have many, every place of a tile.
void CudaOps::mix_some(const CudaExperts& experts, Tensor x, Routes routes, Tensor out) {
  const int32_t choices = x.rows * routes.top_k;
  const int64_t stride = (int64_t{experts.width()} + 7) / 8 * 8;
  ProductCall call = experts.gate_up(), down = experts.down();
  call.x = x.data;
  call.x_stride = x.stride;
  call.out_stride = down.x_stride = stride;
  down.out_stride = experts.hidden();
  down.finish = Finish::kFloat;
  const bool gathers = hopper_multiprocessors_ != 0 && choices / experts.n() >= kGatheredChoices &&
                       !experts.gates_apart() && takes_gathered_rows(call) && takes_gathered_rows(down) &&
                       int64_t{2} * kGatheredTile * experts.n() * (experts.hidden() + experts.width()) <= kMixedBytes;
  int32_t tile = gathers ? kGatheredTile : tile_rows((choices + experts.n() - 1) / experts.n());
  if (experts.gate_up_layout().is_quantised() || experts.down_layout().is_quantised())
    tile = std::min(tile, max_quantised_rows());
  const int32_t tiles = max_tiles(choices, experts.n(), tile);
  auto* const places =
      static_cast<int32_t*>(places_.reserve(sizeof(int32_t) * static_cast<size_t>(tiles) * (tile + 1)));
  int32_t* const tile_experts = places + int64_t{tiles} * tile;
  group_by_expert(memory_.stream(), routes.experts, choices, experts.n(), tile, places, tile_experts);
  check_launch("group_by_expert");
  const Grouping by_tile = {places, tile_experts, tiles * tile, 1};
  const Grouping by_row = {nullptr, routes.experts, 0, 1};
  call.group = experts.gate_up_layout().is_f32() ? by_row : by_tile;
  call.group.rows_of_x = routes.top_k;
  down.group = experts.down_layout().is_f32() ? by_row : by_tile;
  call.rows = down.rows = choices;
  if (gathers) {
    call.rows = down.rows = tiles * tile;
    const size_t bytes = 2 * static_cast<size_t>(call.rows) * static_cast<size_t>(experts.hidden());
    const Matrix gathered = {gathered_.reserve(bytes), call.rows, experts.hidden(), experts.hidden(), false};
    gather_places(memory_.stream(), {x.data, x.rows, x.cols, x.stride, false}, places, routes.top_k, gathered);
    check_launch("gather_places");
    call.x = gathered.data;
    call.x_stride = gathered.stride;
    call.group = down.group = {.experts = tile_experts};
    down.group.to = places;
  }

  void* const gated = gated_.reserve(2 * static_cast<size_t>(stride) * static_cast<size_t>(call.rows));
  call.out = gated;
  if (experts.gates_apart()) {
    call.out_stride = int64_t{2} * experts.width();
    call.out = answers_.reserve(sizeof(float) * static_cast<size_t>(call.out_stride) * static_cast<size_t>(choices));
    call.finish = Finish::kFloat;
  }
  product(call, tile);
  if (experts.gates_apart()) {
    const Matrix products = {call.out, choices, 2 * experts.width(), call.out_stride, true};
    const ExpertGate& gate = experts.gate();
    gate_experts(memory_.stream(), products, routes.experts, experts.gate_up_bias(),
                 {gate.limit, gate.alpha, gate.gelu}, {gated, choices, experts.width(), stride, false});
    check_launch("gate_experts");
  }

  down.x = gated;
  down.out = answers_.reserve(sizeof(float) * static_cast<size_t>(experts.hidden()) * static_cast<size_t>(choices));
  product(down, tile);

  const Matrix answers = {down.out, choices, experts.hidden(), experts.hidden(), true};
  combine_experts(memory_.stream(), answers, {routes.experts, routes.weights, routes.top_k}, experts.down_bias(),
                  {out.data, out.rows, out.cols, out.stride, false});
  check_launch("combine_experts");
}

}  // namespace ashlar::cuda
