// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: choice of experts, and their products grouped by expert.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "device/cpu/cpu_ops.h"
#include "device/cpu/linear/linear_call.h"

namespace ashlar::cpu {
namespace {

constexpr float kLowestScore = -std::numeric_limits<float>::infinity();

/// The `size` largest of the values offered, descending; of equal ones the first offered comes first.
class BestExpert {
 public:
  explicit BestExpert(int32_t size) : size_(size) {}
  void offer(float value, int32_t index) {
    if (n_ == size_ && !(value > values_[n_ - 1])) return;
    int32_t at = n_ < size_ ? n_++ : n_ - 1;
    for (; at > 0 && value > values_[at - 1]; --at) {
      values_[at] = values_[at - 1];
      indices_[at] = indices_[at - 1];
    }
    values_[at] = value;
    indices_[at] = index;
  }
  int32_t n() const { return n_; }
  int32_t index(int32_t i) const { return indices_[i]; }
  float value(int32_t i) const { return values_[i]; }

 private:
  int32_t size_;
  int32_t n_ = 0;
  float values_[kMaxTopK];
  int32_t indices_[kMaxTopK];
};

/// Scores in place. In double, rounded once: the choice must not depend on the instruction set.
void score(float* values, int32_t n, Routing::Score kind) {
  if (kind == Routing::Score::kSigmoid) {
    for (int32_t e = 0; e < n; ++e) values[e] = static_cast<float>(1.0 / (1.0 + std::exp(-double{values[e]})));
    return;
  }
  float highest = values[0];
  for (int32_t e = 1; e < n; ++e) highest = values[e] > highest ? values[e] : highest;
  double total = 0;
  for (int32_t e = 0; e < n; ++e) total += std::exp(double{values[e]} - highest);
  for (int32_t e = 0; e < n; ++e) values[e] = static_cast<float>(std::exp(double{values[e]} - highest) / total);
}

struct Ranking {
  const float* scores;
  const float* bias;
  float of(int32_t expert) const {
    const float rank = bias == nullptr ? scores[expert] : scores[expert] + bias[expert];
    return std::isnan(rank) ? kLowestScore : rank;
  }
};

void route_row(float* scores, const ExpertFactors& factors, int32_t n, const Routing& routing, int32_t* experts,
               float* weights) {
  score(scores, n, routing.score);
  const Ranking ranking{scores, factors.bias};
  const int32_t size = n / routing.n_groups;
  BestExpert groups(routing.top_groups);
  for (int32_t g = 0; g < routing.n_groups; ++g) {
    BestExpert pair(2);
    for (int32_t e = g * size; e < (g + 1) * size; ++e) pair.offer(ranking.of(e), e);
    groups.offer(pair.n() > 1 ? pair.value(0) + pair.value(1) : pair.value(0), g);
  }
  BestExpert best(routing.top_k);
  for (int32_t g = 0; g < routing.n_groups; ++g) {  // in ascending order, so that ties go to the lowest index
    bool admitted = false;
    for (int32_t i = 0; i < groups.n(); ++i) admitted |= groups.index(i) == g;
    for (int32_t e = g * size; admitted && e < (g + 1) * size; ++e) best.offer(ranking.of(e), e);
  }
  float sum = 0;
  for (int32_t j = 0; j < routing.top_k; ++j) {
    experts[j] = best.index(j);
    weights[j] = scores[best.index(j)];
    sum += weights[j];
  }
  for (int32_t j = 0; j < routing.top_k; ++j) {
    if (routing.normalise) weights[j] /= sum + 1e-20F;
    weights[j] *= routing.scale;
    if (factors.scale != nullptr) weights[j] *= factors.scale[experts[j]];
  }
}

}  // namespace

void CpuOps::route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) {
  const int32_t n = logits.cols;
  ASHLAR_CHECK(routing.top_k == routes.top_k && routing.top_k <= kMaxTopK && routing.top_groups <= kMaxTopK);
  ASHLAR_CHECK(n % routing.n_groups == 0 && routing.top_k <= n / routing.n_groups * routing.top_groups);
  float* scratch = expert_floats_.floats(int64_t{n} * logits.rows);
  for_rows(logits.rows, int64_t{20} * n, [&](int32_t r) {
    float* scores = scratch + int64_t{r} * n;
    std::memcpy(scores, logits.row(r), sizeof(float) * static_cast<size_t>(n));
    route_row(scores, factors, n, routing, routes.experts_of(r), routes.weights_of(r));
  });
}

void CpuOps::grouped_linear(const std::vector<PackedWeight>& weights, Tensor x, Tensor out) {
  const PackedWeight& shape = weights.front();
  const LinearKernels& kernels = kernels_of(kernels_, shape);
  const std::span<const ExpertPlan::Group> groups = expert_plan_.groups();
  size_t room = 0;  // for the packed rows of a group
  if (kernels.packed_bytes != nullptr) {
    const int64_t blocks = (kRowsPerPanel + kernels.block_rows - 1) / kernels.block_rows;
    room = static_cast<size_t>(round_up(kernels.packed_bytes(shape.k()), kPackedAlignment) * blocks);
    for (PackedRows& own : packed_rows_) own.memory.bytes(room);
  }
  const uint64_t first_group = linears_ + 1;
  linears_ += groups.size();
  const auto n_groups = static_cast<int32_t>(groups.size());
  const int32_t panels = shape.panels();
  const bool alone = linear_cost(shape, 1) * n_groups < kWorthWaking;
  const int32_t chunk = std::max(1, panels * n_groups / (alone ? 1 : pool_.size() * 8));
  const int32_t chunks = (panels + std::min(chunk, panels) - 1) / std::min(chunk, panels);
  const auto piece = [&](int32_t item, int32_t worker) {
    const ExpertPlan::Group& group = groups[static_cast<size_t>(item / chunks)];
    const PackedWeight& weight = weights[static_cast<size_t>(group.expert)];
    const Tensor rows = {x.row(group.first), group.count, x.cols, x.stride};
    LinearCall call = whole_call(weight, kernels, rows, {out.row(group.first), group.count, out.cols, out.stride});
    call.packed_block = packed_block_bytes(kernels, call);
    if (call.packed_block > 0) {
      PackedRows& own = packed_rows_[static_cast<size_t>(worker)];
      std::byte* to = own.memory.bytes(room);
      const uint64_t key = first_group + static_cast<uint64_t>(item / chunks);
      for (int32_t b = 0; b < call.blocks && own.call != key; ++b) {
        pack_block(kernels, call, b, worker, to + b * call.packed_block);
      }
      own.call = key;
      call.packed = to;
    }
    take_panels(call, weight.panel_bytes(), item % chunks * std::min(chunk, panels), std::min(chunk, panels));
    kernels.run(call);
  };
  if (!alone) return pool_.run(n_groups * chunks, piece);
  for (int32_t item = 0; item < n_groups * chunks; ++item) piece(item, 0);
}

void CpuOps::gate_panel(const ExpertGate& gate, float* products, int32_t columns, float* out) const {
  if (gate.gelu) {
    std::memcpy(out, products + kGateColumns, sizeof(float) * static_cast<size_t>(columns));
    return kernels_.delta.gelu_gate(products, columns, out);
  }
  if (gate.limit == 0) {
    GateCall call;
    call.products = products;
    call.rows = 1;
    call.columns = columns;
    call.out = out;
    return kernels_.silu_mul(call);
  }
  for (int32_t i = 0; i < columns; ++i) {
    const float g = std::min(products[i], gate.limit);
    out[i] = (std::clamp(products[kGateColumns + i], -gate.limit, gate.limit) + 1) * g;
    products[i] = gate.alpha * g;
  }
  kernels_.delta.sigmoid_gate(products, columns, out);
}

void CpuOps::mix_experts(const ExpertWeights& weights, Tensor x, Routes routes, Tensor out) {
  const auto& experts = own_weight<PackedExperts>(weights);
  ASHLAR_CHECK(x.rows == out.rows && x.cols == experts.hidden() && out.cols == experts.hidden());
  if (x.rows == 0) return;
  ExpertPlan& plan = expert_plan_;
  plan.build(routes, x.rows, experts.n(), kRowsPerPanel);
  const int32_t copies = plan.copies();
  const int32_t hidden = experts.hidden();
  const int32_t width = experts.width();
  // Columns of one scratch row: a copy of the row, in whose place its answer comes; gates and ups panel by panel; their
  // product.
  const int32_t panels = experts.gate_up().front().panels();
  const auto at = static_cast<int32_t>(round_up(hidden, kBlockColumns));
  const int64_t stride = at + int64_t{panels} * kPanelColumns + round_up(width, kBlockColumns);
  const Tensor all = {expert_floats_.floats(stride * copies), copies, static_cast<int32_t>(stride), stride};
  const Tensor rows = all.columns(0, hidden);
  const Tensor gate_up = all.columns(at, panels * kPanelColumns);
  const Tensor gated = all.columns(at + panels * kPanelColumns, width);
  for_rows(copies, hidden / 8, [&](int32_t place) {
    std::memcpy(rows.row(place), x.row(plan.row_of(place)), sizeof(float) * static_cast<size_t>(hidden));
  });
  grouped_linear(experts.gate_up(), rows, gate_up);
  for_rows(copies, width / 4, [&](int32_t place) {
    for (int32_t panel = 0; panel < panels; ++panel) {
      const int32_t first = panel * kGateColumns;
      gate_panel(experts.gate(), gate_up.row(place) + int64_t{panel} * kPanelColumns,
                 std::min(kGateColumns, width - first), gated.row(place) + first);
    }
  });
  grouped_linear(experts.down(), gated, rows);
  for_rows(x.rows, int64_t{routes.top_k} * hidden / 8, [&](int32_t r) {
    float* sum = out.row(r);
    for (int32_t j = 0; j < routes.top_k; ++j) {
      const float* answer = rows.row(plan.place_of(int64_t{r} * routes.top_k + j));
      const float weight = routes.weights_of(r)[j];
      for (int32_t i = 0; i < hidden; ++i) sum[i] += weight * answer[i];
    }
  });
}

}  // namespace ashlar::cpu
