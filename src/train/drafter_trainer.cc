// SPDX-License-Identifier: Apache-2.0
#include "train/drafter_trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/drafter/drafter_optimiser.h"
#include "train/drafter/network.h"
#include "train/drafter/position_weights.h"

namespace ashlar {
namespace {

/// The step of an evaluation's anchors.
constexpr uint64_t kEvaluation = ~uint64_t{0};

using AllAnchors = std::span<const DrafterTrainer::Anchors>;

/// What the losses are divided by: the sum of weights, or the number of blocks.
double normaliser(std::span<const TrainDocument> batch, AllAnchors anchors, const TrainShape& shape,
                  const TrainSettings& settings) {
  double sum = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (settings.weights != PositionWeights::kDecay) {
      sum += static_cast<double>(anchors[i].size());
      continue;
    }
    for_labels(batch[i], anchors[i], shape.block, [&](int32_t block, int32_t slot) {
      const int32_t id = batch[i].ids[static_cast<size_t>(anchors[i][static_cast<size_t>(block)] + slot)];
      if (shape.draft_entry(id)) sum += decay_weight(slot, settings.gamma);
    });
  }
  return sum;
}

std::vector<float> weights_of(const BlockBatch& rows, std::span<const TokenLoss> losses, const TrainShape& shape,
                              const TrainSettings& settings) {
  if (settings.weights == PositionWeights::kDpace) {
    return dpace_weights(rows.label_rows, losses, shape.block, settings.alpha, rows.lost_rows);
  }
  std::vector<float> weights;
  for (const int32_t row : rows.label_rows) {
    weights.push_back(static_cast<float>(decay_weight(row % shape.block, settings.gamma)));
  }
  return weights;
}

}  // namespace

std::optional<int32_t> TrainShape::draft_entry(int32_t id) const {
  if (draft_ids.empty()) return id;
  const auto found = std::ranges::lower_bound(draft_ids, id);
  if (found == draft_ids.end() || *found != id) return std::nullopt;
  return static_cast<int32_t>(found - draft_ids.begin());
}

double TrainSettings::learning_rate_at(int64_t steps_done) const {
  const auto warmup = static_cast<int64_t>(warmup_share * static_cast<double>(total_steps));
  if (steps_done < warmup) {
    return learning_rate * static_cast<double>(steps_done + 1) / static_cast<double>(warmup + 1);
  }
  const auto rest = static_cast<double>(std::max<int64_t>(total_steps - warmup, 1));
  const double progress = std::min(static_cast<double>(steps_done - warmup) / rest, 1.0);
  if (schedule == LearningRateSchedule::kLinear) return learning_rate * (1 - progress);
  return learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

class DrafterTrainer::State {
 public:
  State(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings, std::span<const float> embedding,
        std::span<const float> head, AllReduce* replicas, MakeNetwork make_network)
      : ops_(ops), replicas_(replicas), shape_(shape), settings_(settings) {
    const size_t size = static_cast<size_t>(shape.vocab) * static_cast<size_t>(shape.hidden);
    ASHLAR_CHECK_EQ(embedding.size(), size);
    ASHLAR_CHECK_EQ(head.size(), size);
    ASHLAR_CHECK(ops.takes(settings.compute));
    ASHLAR_CHECK(shape.sights.empty() || std::ssize(shape.sights) == shape.layers);
    for (const TrainSight& sight : shape.sights) ASHLAR_CHECK(sight.window == 0 || sight.window >= shape.block);
    if (shape.convolutions) ASHLAR_CHECK_EQ(shape.hidden % shape.convolutions->group, 0);
    if (shape.selector) ASHLAR_CHECK_LE(shape.selector->candidates, std::min(shape.vocab, kMaxCandidates));
    ASHLAR_CHECK(shape.layers >= 1 && shape.block >= 2 && shape.heads % shape.kv_heads == 0 && shape.head_dim % 2 == 0);
    ASHLAR_CHECK(std::ranges::is_sorted(shape.draft_ids) &&
                 (shape.draft_ids.empty() || !(shape.selector || shape.markov)));
    ASHLAR_CHECK(!(shape.selector && shape.markov));
    const Tensor copied = copy_table(embedding, embedding_);
    frozen_ = {copied, copied};
    if (!shape.draft_ids.empty()) {
      frozen_.head = copy_table(rows_of_drafts(head), head_);
    } else if (head.data() != embedding.data()) {
      frozen_.head = copy_table(head, head_);
    }
    network_ = make_network(ops_, shape_, settings_, frozen_);
    optimiser_ = std::make_unique<DrafterOptimiser>(ops_, tensors(), settings_);
  }

  TrainReport run(std::span<const TrainDocument> batch, AllAnchors anchors, bool differentiates);
  /// Over all replicas, of one's gradients, report and counts: theirs.
  void add_up(TrainReport& report, DraftCounts& counts);
  void update(TrainReport& report);
  std::vector<Anchors> draw(std::span<const TrainDocument> batch, uint64_t step) const;

  TrainOps& ops_;
  AllReduce* const replicas_;
  const TrainShape shape_;
  const TrainSettings settings_;
  TrainedNetwork network_;
  TrainedTensors& tensors() const { return *network_.tensors; }
  BlockPass& pass() const { return *network_.pass; }
  std::unique_ptr<DrafterOptimiser> optimiser_;
  int64_t steps_done_ = 0;

 private:
  std::vector<float> rows_of_drafts(std::span<const float> head) const {
    const auto hidden = static_cast<size_t>(shape_.hidden);
    std::vector<float> rows;
    for (const int32_t id : shape_.draft_ids) {
      const std::span<const float> row = head.subspan(static_cast<size_t>(id) * hidden, hidden);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  }
  /// Waits until it is there.
  Tensor copy_table(std::span<const float> from, std::unique_ptr<Buffer>& to) {
    to = ops_.allocate(from.size_bytes());
    ops_.upload(from.data(), to->data(), from.size_bytes());
    ops_.wait();
    const auto rows = static_cast<int32_t>(from.size() / static_cast<size_t>(shape_.hidden));
    const Tensor table = {to->data(), rows, shape_.hidden, shape_.hidden};
    if (settings_.compute == table.dtype) return table;
    std::unique_ptr<Buffer> copy = ops_.allocate(from.size() * bytes_of(settings_.compute));
    const Tensor rounded = {copy->data(), table.rows, table.cols, table.stride, settings_.compute};
    ops_.copy(table, rounded);
    ops_.wait();
    to = std::move(copy);
    return rounded;
  }

  std::unique_ptr<Buffer> embedding_, head_;
  FrozenTables frozen_;
};

TrainReport DrafterTrainer::State::run(std::span<const TrainDocument> batch, AllAnchors anchors, bool differentiates) {
  ASHLAR_CHECK_EQ(batch.size(), anchors.size());
  TrainReport report;
  DraftCounts counts(shape_.block);
  const double divisor = normaliser(batch, anchors, shape_, settings_);
  // In pieces, so that memory does not grow with the batch. A document is never split.
  const auto blocks_at_once = static_cast<size_t>(ops_.pieces().blocks);
  tensors().refresh_factors();
  pass().refresh();
  if (differentiates) ops_.clear(tensors().gradients(), tensors().size());
  // Each document where its hidden states are; what it weighs is a matter of all of them.
  const auto blocks_here = [&](size_t i) { return batch[i].is_elsewhere() ? size_t{0} : anchors[i].size(); };
  for (size_t i = 0; i < batch.size();) {
    BlockBatch rows;
    do {
      if (blocks_here(i) > 0) rows.add(batch[i], anchors[i], shape_);
      ++i;
    } while (i < batch.size() && rows.blocks.size() + blocks_here(i) <= blocks_at_once);
    report.blocks += static_cast<int32_t>(rows.blocks.size());
    if (rows.labels.empty()) {
      counts.add({}, {}, {}, rows.lost_rows);
      continue;
    }
    const BlockLosses losses = pass().forward(rows, differentiates);
    const auto weigh = [&](std::span<const TokenLoss> of, double share) {
      if (of.empty()) return std::vector<float>();
      std::vector<float> weights = weights_of(rows, of, shape_, settings_);
      for (size_t label = 0; label < weights.size(); ++label) {
        report.loss += share * weights[label] * static_cast<double>(of[label].loss) / divisor;
        weights[label] = static_cast<float>(share * weights[label] / divisor);
      }
      return weights;
    };
    const std::vector<float> weights = weigh(losses.rows, 1);
    const std::vector<float> chosen = weigh(losses.chosen, settings_.selector_weight);
    counts.add(rows.label_rows, rows.labels, losses.drafts(), rows.lost_rows);
    if (differentiates) pass().backward(rows, weights, chosen);
  }
  if (differentiates && replicas_ != nullptr) add_up(report, counts);
  counts.write(report);
  if (differentiates) {
    report.gradient_norm = std::sqrt(ops_.squared_norm(tensors().gradients(), tensors().size()));
  }
  report.skipped = report.labels == 0 || !std::isfinite(report.loss) || !std::isfinite(report.gradient_norm);
  return report;
}

void DrafterTrainer::State::add_up(TrainReport& report, DraftCounts& counts) {
  ops_.wait();
  replicas_->sum(tensors().gradients(), tensors().size());
  std::vector<double> figures = {report.loss, static_cast<double>(report.blocks)};
  counts.append_to(figures);
  replicas_->sum(figures);
  report.loss = figures[0];
  report.blocks = static_cast<int32_t>(figures[1]);
  counts.take(std::span(figures).subspan(2));
}

// A step without numbers still counts, so that the next one draws other anchors.
void DrafterTrainer::State::update(TrainReport& report) {
  const double learning_rate = settings_.learning_rate_at(steps_done_);
  ++steps_done_;
  if (report.skipped) return;
  if (settings_.clip > 0) {
    // As in torch.nn.utils.clip_grad_norm_.
    const double factor = settings_.clip / (report.gradient_norm + 1e-6);
    if (factor < 1) ops_.scale(tensors().gradients(), tensors().size(), static_cast<float>(factor));
  }
  optimiser_->step(learning_rate, steps_done_);
}

std::vector<DrafterTrainer::Anchors> DrafterTrainer::State::draw(std::span<const TrainDocument> batch,
                                                                 uint64_t step) const {
  std::vector<Anchors> anchors;
  for (const TrainDocument& document : batch) {
    anchors.push_back(draw_anchors(document, settings_.max_anchors, settings_.seed, step,
                                   static_cast<uint32_t>(anchors.size()), pass().first_anchor()));
  }
  return anchors;
}

DrafterTrainer::DrafterTrainer(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                               std::span<const float> embedding, std::span<const float> head, AllReduce* replicas,
                               MakeNetwork make_network)
    : state_(std::make_unique<State>(ops, shape, settings, embedding, head, replicas, make_network)) {}
DrafterTrainer::~DrafterTrainer() = default;

void DrafterTrainer::initialise(uint64_t seed) {
  state_->ops_.wait();
  state_->tensors().initialise(seed);
}

TrainReport DrafterTrainer::step(std::span<const TrainDocument> batch) {
  return step(batch, state_->draw(batch, static_cast<uint64_t>(state_->steps_done_)));
}
TrainReport DrafterTrainer::step(std::span<const TrainDocument> batch, std::span<const Anchors> anchors) {
  TrainReport report = state_->run(batch, anchors, true);
  state_->update(report);
  return report;
}
TrainReport DrafterTrainer::differentiate(std::span<const TrainDocument> batch, std::span<const Anchors> anchors) {
  return state_->run(batch, anchors, true);
}
TrainReport DrafterTrainer::evaluate(std::span<const TrainDocument> batch) const {
  return evaluate(batch, state_->draw(batch, kEvaluation));
}
TrainReport DrafterTrainer::evaluate(std::span<const TrainDocument> batch, std::span<const Anchors> anchors) const {
  return state_->run(batch, anchors, false);
}

int64_t DrafterTrainer::steps_done() const { return state_->steps_done_; }
void DrafterTrainer::set_steps_done(int64_t steps) { state_->steps_done_ = steps; }
int32_t DrafterTrainer::first_anchor() const { return state_->pass().first_anchor(); }
std::span<const TrainParameter> DrafterTrainer::parameters() {
  state_->ops_.wait();
  return state_->tensors().list();
}
const TrainShape& DrafterTrainer::shape() const { return state_->shape_; }
const TrainSettings& DrafterTrainer::settings() const { return state_->settings_; }

size_t DrafterTrainer::step_bytes(int64_t tokens) const {
  const auto anchors = static_cast<int32_t>(std::min<int64_t>(tokens, state_->settings_.max_anchors));
  return state_->pass().bytes(static_cast<int32_t>(tokens), anchors * state_->shape_.block) +
         state_->optimiser_->bytes();
}

}  // namespace ashlar
