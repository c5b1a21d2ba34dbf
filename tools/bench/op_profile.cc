// SPDX-License-Identifier: Apache-2.0
// op_profile MODEL[+DRAFTER] THREADS CONTEXT ROUNDS SEQUENCESxROWS[:OUTPUTS]...: where a pass of the target spends its
// time, op by op, for batches of that many sequences and rows each, in turns; the last OUTPUTS rows of a sequence (all)
// are asked for. Each sequence has CONTEXT tokens in the cache. With a drafter, its passes of as many rows stand next
// to those of the target, each run before it as when serving. Prints the 10th percentile of every op's sum over a pass,
// in microseconds. ASHLAR_FORCE_ISA chooses the instruction set, ASHLAR_WEIGHTS (exact, int8, int4, fp8) what is kept.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/machine/available_memory.h"
#include "device/device.h"
#include "device/weights/kept_weights.h"
#include "measure/statistics.h"
#include "model/drafters/dflash.h"
#include "model/model.h"

namespace {

using namespace ashlar;

/// Times every op of the device that it hands its work to.
class TimedOps final : public Ops {
 public:
  explicit TimedOps(Ops& ops) : ops_(ops) {}

  /// Nanoseconds by op since the last call.
  std::map<std::string, int64_t> take() { return std::exchange(spent_, {}); }

  std::string name() const override { return ops_.name(); }
  std::string isa() const override { return ops_.isa(); }
  int32_t rows_at_once() const override { return ops_.rows_at_once(); }
  int32_t prompt_rows() const override { return ops_.prompt_rows(); }
  int32_t threads() const override { return ops_.threads(); }
  std::unique_ptr<Buffer> allocate(size_t bytes) override { return ops_.allocate(bytes); }
  AvailableMemory available_memory() const override { return ops_.available_memory(); }
  std::unique_ptr<Weight> pack(const WeightSource& source, WeightUse use) override { return ops_.pack(source, use); }
  std::unique_ptr<Weight> repack(const Weight& weight, Products products) override {
    return ops_.repack(weight, products);
  }
  std::unique_ptr<ExpertWeights> pack_experts(std::span<const ExpertSource> experts) override {
    return ops_.pack_experts(experts);
  }
  void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) override {
    timed("embed", [&] { ops_.embed(table, ids, scale, out); });
  }
  void scale(Tensor x, float factor) override {
    timed("scale", [&] { ops_.scale(x, factor); });
  }
  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override {
    timed("rms_norm", [&] { ops_.rms_norm(x, weight, eps, out); });
  }
  void linear(const Weight& weight, Input in, Store store, Tensor out) override {
    timed("linear " + shape(weight), [&] { ops_.linear(weight, in, store, out); });
  }
  void linear_argmax(const Weight& weight, Tensor x, int32_t* ids) override {
    timed("linear_argmax " + shape(weight), [&] { ops_.linear_argmax(weight, x, ids); });
  }
  void linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) override {
    timed("linear_statistics " + shape(weight), [&] { ops_.linear_statistics(weight, x, without, out); });
  }
  void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) override {
    timed("gated_mlp " + shape(gate_up), [&] { ops_.gated_mlp(gate_up, down, in, out); });
  }
  void reduce_add(Tensor partial, Tensor residual) override {
    timed("reduce_add", [&] { ops_.reduce_add(partial, residual); });
  }
  void route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) override {
    timed("route", [&] { ops_.route(logits, factors, routing, routes); });
  }
  void mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) override {
    timed("mix_experts", [&] { ops_.mix_experts(experts, x, routes, out); });
  }
  int64_t kv_page_bytes(const AttentionShape& shape) const override { return ops_.kv_page_bytes(shape); }
  void store_kv(Tensor qkv, const KvStore& to) override {
    timed("store_kv", [&] { ops_.store_kv(qkv, to); });
  }
  void linear_kv(const Weight& weight, Input in, Tensor qkv, const KvStore& to) override {
    timed("linear_kv " + shape(weight), [&] { ops_.linear_kv(weight, in, qkv, to); });
  }
  void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                 KvPlane plane) override {
    timed("commit_kv", [&] { ops_.commit_kv(shape, branch, page_table, plane); });
  }
  void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                 Tensor out) override {
    timed("attention", [&] { ops_.attention(q, shape, rows, visible, plane, out); });
  }
  void self_attention(const SelfAttention& call, Tensor out) override {
    timed("self_attention", [&] { ops_.self_attention(call, out); });
  }
  void sigmoid_gate(Tensor gate, Tensor x) override {
    timed("sigmoid_gate", [&] { ops_.sigmoid_gate(gate, x); });
  }
  void gelu_gate(Tensor gate, Tensor x) override {
    timed("gelu_gate", [&] { ops_.gelu_gate(gate, x); });
  }
  void grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                    Tensor out) override {
    timed("grouped_conv", [&] { ops_.grouped_conv(x, dynamic, conv, tables, store, out); });
  }
  void find_candidates(Tensor logits, Candidates out) override {
    timed("find_candidates", [&] { ops_.find_candidates(logits, out); });
  }
  void score_edges(const CandidateEdges& edges, Tensor out) override {
    timed("score_edges", [&] { ops_.score_edges(edges, out); });
  }
  void candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) override {
    timed("candidate_attention", [&] { ops_.candidate_attention(qkv, call, out); });
  }
  void gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) override {
    timed("gated_delta_net", [&] { ops_.gated_delta_net(in, net, out); });
  }
  void short_conv(Tensor in, const ShortConv& conv, Tensor out) override {
    timed("short_conv", [&] { ops_.short_conv(in, conv, out); });
  }
  void gather_rows(Tensor x, const int32_t* indices, Tensor out) override {
    timed("gather_rows", [&] { ops_.gather_rows(x, indices, out); });
  }
  void copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) override {
    timed("copy_rows", [&] { ops_.copy_rows(x, from, to, n, out); });
  }
  void copy(Tensor x, Tensor out) override {
    timed("copy", [&] { ops_.copy(x, out); });
  }
  void visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) override {
    timed("visibility", [&] { ops_.visibility(rows, window, causal, begin, end); });
  }
  void softcap(Tensor x, float limit) override {
    timed("softcap", [&] { ops_.softcap(x, limit); });
  }
  void upload(const void* from, std::byte* to, size_t bytes) override {
    timed("upload", [&] { ops_.upload(from, to, bytes); });
  }
  void download(const std::byte* from, void* to, size_t bytes) override {
    timed("download", [&] { ops_.download(from, to, bytes); });
  }
  void choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) override {
    timed("choose", [&] { ops_.choose(logits, requests, choices); });
  }
  void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) override {
    timed("copy_bytes", [&] { ops_.copy_bytes(from, to, bytes); });
  }
  void for_each(int32_t n, void (*fn)(void*, int32_t), void* context) override {
    timed("for_each", [&] { ops_.for_each(n, fn, context); });
  }

 private:
  static std::string shape(const Weight& weight) {
    return std::to_string(weight.k()) + " -> " + std::to_string(weight.n());
  }
  template <class Body>
  void timed(const std::string& op, const Body& body) {
    const int64_t begin = now_ns();
    body();
    spent_[op] += now_ns() - begin;
  }

  Ops& ops_;
  std::map<std::string, int64_t> spent_;
};

struct Layout {
  std::string name;
  int32_t sequences = 0;
  int32_t rows = 0;
  int32_t outputs = 0;  // of each sequence
  bool drafts = false;
  std::map<std::string, std::vector<double>> spent;  // microseconds a pass
  std::vector<double> whole;
};

class Passes {
 public:
  Passes(Model& model, DflashDrafter* drafter, TimedOps& ops, int32_t context, int32_t sequences, int32_t rows)
      : model_(model),
        drafter_(drafter),
        ops_(ops),
        context_(context),
        batch_(ops, std::max(sequences * rows, context), sequences) {
    model.reserve(batch_.max_rows());
    KvLayout layout;
    layout.keep_log(rows);
    model.register_state(layout);
    if (drafter != nullptr) {
      drafter->reserve(1, sequences * rows);
      drafter->register_state(layout);
    }
    pages_of_one_ = (context + rows) / kPageTokens + 1;
    pages_.resize(static_cast<size_t>(pages_of_one_) * sequences);
    std::iota(pages_.begin(), pages_.end(), 0);
    kv_ = std::make_unique<KvMemory>(ops, layout, static_cast<int32_t>(pages_.size()), sequences);
    for (int32_t s = 0; s < sequences; ++s) {
      batch_.clear();
      add(s, 0, context, 0);
      model.forward(batch_, *kv_, {});
    }
  }

  void run(Layout& layout) {
    batch_.clear();
    for (int32_t s = 0; s < layout.sequences; ++s) add(s, context_, layout.rows, layout.outputs);
    ids_.resize(batch_.n());
    ops_.take();
    const int64_t begin = now_ns();
    if (layout.drafts) {
      drafter_->head_argmax(drafter_->forward(batch_, *kv_), ids_.data());
    } else if (model_.config().diffusion) {
      statistics_.resize(batch_.n_outputs());
      model_.head_statistics(model_.forward(batch_, *kv_, {}), -1, statistics_.data());
    } else {
      model_.head_argmax(model_.forward(batch_, *kv_, {}), ids_.data());
    }
    layout.whole.push_back(static_cast<double>(now_ns() - begin) * 1e-3);
    for (const auto& [op, ns] : ops_.take()) layout.spent[op].push_back(static_cast<double>(ns) * 1e-3);
  }

 private:
  void add(int32_t sequence, int32_t start, int32_t rows, int32_t outputs) {
    // As if none of the rows were committed, and the one before them was.
    const StateSpan state = {sequence, start > 0 ? 1 : 0, start > 0 ? rows : 1, {}};
    batch_.begin_sequence(pages_.data() + int64_t{sequence} * pages_of_one_, 0, state);
    for (int32_t r = 0; r < rows; ++r) {
      batch_.add_row((start + r * 37 + sequence * 101) % model_.config().vocab, start + r, start + rows);
      if (r >= rows - outputs) batch_.want_output();
    }
  }

  Model& model_;
  DflashDrafter* drafter_;
  TimedOps& ops_;
  int32_t context_;
  int32_t pages_of_one_;
  RowBatch batch_;
  std::vector<int32_t> pages_, ids_;
  std::vector<RowStatistics> statistics_;
  std::unique_ptr<KvMemory> kv_;
};

KeptWeights weights_of(const std::string& name) {
  if (const auto weights = kept_weights_of(name)) return *weights;
  throw std::runtime_error("no weights '" + name + "'; expected " + kKeptWeightsNames);
}

void profile(int argc, char** argv) {
  DeviceOptions device;
  device.threads = std::atoi(argv[2]);
  if (const char* isa = std::getenv("ASHLAR_FORCE_ISA")) device.isa = isa;
  if (const char* weights = std::getenv("ASHLAR_WEIGHTS")) device.weights = weights_of(weights);
  const std::unique_ptr<Ops> ops = make_device("cpu", device);
  TimedOps timed(*ops);
  const std::string folders = argv[1];
  const size_t plus = folders.find('+');
  const std::unique_ptr<Model> model = Model::load(timed, folders.substr(0, plus));
  const std::unique_ptr<DflashDrafter> drafter =
      plus == std::string::npos ? nullptr : DflashDrafter::load(*model, folders.substr(plus + 1));
  std::vector<Layout> layouts;
  int32_t max_sequences = 0;
  int32_t max_rows = 0;
  for (int i = 5; i < argc; ++i) {
    Layout layout;
    layout.name = argv[i];
    layout.sequences = std::atoi(argv[i]);
    layout.rows = std::atoi(layout.name.substr(layout.name.find('x') + 1).c_str());
    const size_t colon = layout.name.find(':');
    layout.outputs = colon == std::string::npos ? layout.rows : std::atoi(layout.name.substr(colon + 1).c_str());
    max_sequences = std::max(max_sequences, layout.sequences);
    max_rows = std::max(max_rows, layout.rows);
    if (drafter) {
      layouts.push_back(layout);
      layouts.back().name = "d" + layout.name;
      layouts.back().drafts = true;
    }
    layouts.push_back(layout);
  }
  Passes passes(*model, drafter.get(), timed, std::atoi(argv[3]), max_sequences, max_rows);
  for (Layout& layout : layouts) passes.run(layout);
  for (Layout& layout : layouts) layout.spent.clear(), layout.whole.clear();
  for (int round = 0; round < std::atoi(argv[4]); ++round) {
    for (Layout& layout : layouts) passes.run(layout);
  }
  std::printf("%s, %d threads\n%-28s", ops->isa().c_str(), ops->threads(), "us a pass");
  for (const Layout& layout : layouts) std::printf("%10s", layout.name.c_str());
  std::set<std::string> ops_seen;
  for (const Layout& layout : layouts) {
    for (const auto& [op, values] : layout.spent) ops_seen.insert(op);
  }
  for (const std::string& op : ops_seen) {
    std::printf("\n%-28s", op.c_str());
    for (Layout& layout : layouts) std::printf("%10.1f", quantile(layout.spent[op], 0.1));
  }
  std::printf("\n%-28s", "whole");
  for (const Layout& layout : layouts) std::printf("%10.1f", quantile(layout.whole, 0.1));
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("op_profile MODEL[+DRAFTER] THREADS CONTEXT ROUNDS SEQUENCESxROWS[:OUTPUTS]...\n", stderr);
    return 2;
  }
  try {
    profile(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
