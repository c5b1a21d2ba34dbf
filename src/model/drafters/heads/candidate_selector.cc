// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/heads/candidate_selector.h"

namespace ashlar {
namespace {

// A table of codes, as exact as it is stored. Its name may end in ".weight".
std::unique_ptr<Weight> bind_codes(WeightBinder& binder, const std::string& name, int64_t vocab, int64_t rank) {
  const std::string stored = binder.has(name + ".weight") ? name + ".weight" : name;
  return binder.ops().pack({{binder.matrix(stored, vocab, rank)}, {}}, {.products = Products::kVocabulary});
}

}  // namespace

CandidateSelector::CandidateSelector(WeightBinder& binder, const std::string& prefix, const DrafterNames& names,
                                     const SelectorConfig& config, int32_t hidden, int32_t vocab, float hidden_scale)
    : config_(config),
      scale_(1.0F / hidden_scale),
      projection_(binder.linear({{prefix + names.selector_projection, config.rank}}, hidden, false)),
      predecessors_(bind_codes(binder, prefix + names.selector_predecessors, vocab, config.rank)),
      successors_(bind_codes(binder, prefix + names.selector_successors, vocab, config.rank)) {}

void CandidateSelector::reserve(Ops& ops, int32_t rows) {
  max_rows_ = rows;
  const int64_t n = int64_t{rows} * config_.top_k;
  begins_ = {ops, rows};
  anchors_ = {ops, rows};
  logits_ = {ops, n};
  hidden_ = {ops, int64_t{rows} * config_.rank};
  found_ = {ops, n * (static_cast<int64_t>(sizeof(int32_t)) + config_.top_k * static_cast<int64_t>(sizeof(float)))};
  codes_ = ops.allocate(bytes_of(ops.activation_type()) * static_cast<size_t>((rows + 2 * n) * config_.rank));
}

SelectedEdges CandidateSelector::score(Ops& ops, const CandidateRows& of) {
  ASHLAR_CHECK_LE(of.hidden.rows, max_rows_);
  const int32_t rows = of.hidden.rows, n = config_.top_k, rank = config_.rank;
  const auto blocks = static_cast<int32_t>(of.begins.size());
  host_begins_.assign(static_cast<size_t>(rows), -1);
  host_anchors_.clear();
  for (const CandidateRows::Begin& begin : of.begins) {
    host_begins_[static_cast<size_t>(begin.row)] = static_cast<int32_t>(host_anchors_.size());
    host_anchors_.push_back(begin.token);
  }
  begins_.upload(host_begins_);
  anchors_.upload(host_anchors_);

  const DType type = ops.activation_type();
  std::byte* at = codes_->data();
  const auto codes = [&](const Weight& table, const int32_t* ids, int32_t count) {
    const Tensor out = {at, count, rank, rank, type};
    at += bytes_of(type) * static_cast<size_t>(count) * static_cast<size_t>(rank);
    ops.embed(table, ids, 1.0F, out);
    return out;
  };
  const int64_t count = int64_t{rows} * n, id_bytes = count * static_cast<int64_t>(sizeof(int32_t));
  auto* const ids = reinterpret_cast<int32_t*>(found_.device());
  const Candidates candidates = {n, ids, logits_.device()};
  const Tensor projected = {hidden_.device(), rows, rank, rank};
  const Tensor out = {found_.device() + id_bytes, rows, n * n, n * n};
  ops.find_candidates(of.logits, candidates);
  ops.linear(*projection_, of.hidden, Store::kOverwrite, projected);
  const Tensor of_anchors = codes(*predecessors_, anchors_.device(), blocks);
  const Tensor before = codes(*predecessors_, ids, rows * n);
  const Tensor after = codes(*successors_, ids, rows * n);
  ops.score_edges({candidates, begins_.device(), of_anchors, before, after, projected, scale_}, out);
  const std::byte* const found = found_.download(id_bytes + count * n * static_cast<int64_t>(sizeof(float))).data();
  return {n,
          {reinterpret_cast<const int32_t*>(found), static_cast<size_t>(count)},
          {reinterpret_cast<const float*>(found + id_bytes), static_cast<size_t>(count * n)}};
}

}  // namespace ashlar
