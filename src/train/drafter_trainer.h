// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains a drafter against a frozen target: forward, loss, backward, optimiser. Sources: z-lab/dflash (the method),
// SpecForge (loss and its normalisation), D-PACE (arXiv 2605.18810).
//
// A block begins at an anchor, position p of a document; its slot k predicts the token at p + k. What a block is made
// of is the network's: slots of a block-diffusion drafter of the DFlash family hold token p and masks, stand at p and
// the positions after it, and see themselves and the context rows before p, as when serving.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/replicas/all_reduce.h"
#include "device/train_ops.h"

namespace ashlar {

/// One document: tokens, those that are supervised, and the target's auxiliary hidden states.
struct TrainDocument {
  std::span<const int32_t> ids;
  std::span<const uint8_t> supervised;  ///< of each token: 1 if a model is to predict it
  /// [ids.size(), aux_width], in the order of fc's columns: in the memory of the trainer's device, in fp32 or bf16, and
  /// there until the call it is given to returns. No memory: another replica has them, and computes this document.
  Tensor aux_hidden;
  /// [ids.size(), hidden]: what the target's head takes, in the same memory; used where its distributions are learnt.
  Tensor final_hidden = {};

  bool is_elsewhere() const { return aux_hidden.data == nullptr; }
};

/// Convolutions around both sublayers of each layer.
struct TrainConvolutions {
  int32_t taps = 0;
  int32_t group = 0;  ///< channels that share what is the row's own
};

/// A choice among the likeliest tokens of each position, by the one before it.
struct TrainSelector {
  int32_t rank = 0;  ///< of a token's codes
  int32_t candidates = 0;
};

/// What the token before a position adds to its logits, and how likely its draft is accepted.
struct TrainMarkov {
  int32_t rank = 0;  ///< of a token's code
  /// Columns of what is rated: the hidden state, or the code too; 0: drafts are not rated.
  int32_t rated_width = 0;
};

/// What a layer of the target's own kind has, which drafts further tokens (MTP).
struct TrainOwnLayer {
  int32_t rotary_dim = 0;          ///< what is rotated of a head, from its beginning on
  bool output_gate = false;        ///< rows of q's projection are, head by head, queries and gates
  bool norms_from_one = false;     ///< folders hold of norms what they have more than one
  std::vector<float> target_norm;  ///< weight of the norm before the target's head, which its hidden states go through
};

/// What rows of a layer see.
struct TrainSight {
  int32_t window = 0;   ///< context positions at a distance below this, at least a block; 0: all
  bool causal = false;  ///< of their own block what does not follow them; otherwise all of it
};

struct TrainShape {
  int32_t hidden = 0;
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t intermediate = 0;
  int32_t aux_width = 0;  ///< auxiliary layers * hidden size of the target
  int32_t vocab = 0;
  int32_t block = 16;  ///< last token included
  float eps = 1e-6F;
  double rope_theta = 10000;
  int32_t mask_token_id = 0;
  std::vector<TrainSight> sights;  ///< of each layer; empty: each sees everything
  float embedding_scale = 1;
  float output_multiplier = 1;  ///< of hidden states before the head
  float target_multiplier = 1;  ///< of the target's before the same head
  std::optional<TrainConvolutions> convolutions;
  std::optional<TrainSelector> selector;
  std::optional<TrainMarkov> markov;
  std::optional<TrainOwnLayer> own_layer;
  /// Tokens of the vocabulary that are drafted, ascending; empty: all. Others are read and never learnt: slots that
  /// they come in have no loss, and no draft is right there.
  std::vector<int32_t> draft_ids;

  TrainSight sight(int32_t layer) const { return sights.empty() ? TrainSight{} : sights[static_cast<size_t>(layer)]; }
  /// Rows of the head.
  int32_t draft_vocab() const { return draft_ids.empty() ? vocab : static_cast<int32_t>(draft_ids.size()); }
  /// The head's row of a token; none: it is not drafted.
  std::optional<int32_t> draft_entry(int32_t id) const;
  /// Columns of the product that gives a sublayer's two convolutions what is a row's own.
  int32_t dynamic_width() const { return 2 * convolutions->taps * (hidden / convolutions->group); }
};

enum class LearningRateSchedule : uint8_t { kCosine, kLinear };
enum class PositionWeights : uint8_t {
  kDecay,  ///< slot k counts exp(-(k - 1) / gamma); losses are divided by the sum of weights
  kDpace,  ///< slot k counts what it adds to the expected acceptance; losses are divided by the number of blocks
};

/// What moves matrices; norms, convolutions' own weights, tables of codes and what rates drafts are always AdamW's.
enum class MatrixOptimiser : uint8_t { kAdamW, kMuon };

struct TrainSettings {
  double learning_rate = 6e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  /// What products multiply: fp32, or bf16 where the device takes it, with the activations between them. Weights and
  /// moments, the residual stream, gradients of weights and all sums are fp32 either way.
  DType compute = DType::kF32;
  MatrixOptimiser matrices = MatrixOptimiser::kAdamW;
  double muon_rate = 10;  ///< times the learning rate, for matrices
  double muon_momentum = 0.95;
  double muon_weight_decay = 0.1;
  double clip = 1.0;           ///< most that the gradient's norm may be; 0: any
  double warmup_share = 0.04;  ///< of total_steps
  int64_t total_steps = 1;
  LearningRateSchedule schedule = LearningRateSchedule::kCosine;  ///< after the warm-up, down to 0
  int32_t max_anchors = 512;                                      ///< of a document and step
  /// What is learnt: the target's distribution of each next token by this loss; none: the documents' tokens, by
  /// cross-entropy.
  std::optional<DistributionLoss> distribution;
  PositionWeights weights = PositionWeights::kDecay;
  double gamma = 7;    ///< of kDecay
  double alpha = 0.5;  ///< of kDpace: how far a slot's chance of acceptance is moved towards 1
  /// What the selector's own loss counts, whose rows weigh by its own chances of acceptance.
  double selector_weight = 1;
  double rating_weight = 1;  ///< what the rating of drafts counts next to each row's loss
  uint64_t seed = 0;

  /// Of the step after `steps_done` steps.
  double learning_rate_at(int64_t steps_done) const;
};

struct TrainReport {
  double loss = 0;           ///< those of heads included
  double gradient_norm = 0;  ///< before clipping; 0 in an evaluation
  int32_t blocks = 0;
  int64_t labels = 0;  ///< supervised slots
  /// Of slots 1, 2, ...: share of supervised labels that have the highest logit, or are what the selector chooses after
  /// the document's token before them; 0 where there was none.
  std::vector<double> position_accuracy;
  /// Tokens that a verify step would yield: 1 + the expected number of leading slots that are right, where a block that
  /// ends early counts for the slots that it has.
  double expected_acceptance = 0;
  bool skipped = false;  ///< loss or gradient was no number, or there was no block: weights are as before
};

/// A parameter by the name that its checkpoint gives it. The host may read and write the values until the trainer's
/// next call.
struct TrainParameter {
  std::string name;            ///< "fc.weight", "layers.0.self_attn.q_proj.weight", ...
  std::vector<int64_t> shape;  ///< [outputs, inputs] or [n]
  std::span<float> values;
  std::span<float> gradient;  ///< of the last step, clipped
  std::span<float> m;         ///< first moment
  std::span<float> v;         ///< second moment
  bool is_table = false;      ///< rows of tokens, of which a step sees some
  bool is_of_head = false;    ///< of convolutions or a head, without which a drafter is one of the plain backbone
  bool is_from_one = false;   ///< folders hold what the values have more than one
  bool is_optional = false;   ///< a folder may lack it, which means 0
};

struct FrozenTables;
struct TrainedNetwork;
/// Makes what is trained (train/drafter/network.h), which keeps `ops` and what `frozen` points to.
using MakeNetwork = TrainedNetwork (*)(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                                       const FrozenTables& frozen);
/// A drafter of blocks.
TrainedNetwork make_block_network(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                                  const FrozenTables& frozen);
/// A head that drafts one token at a time (train/eagle3/eagle3_pass.h).
TrainedNetwork make_eagle3_network(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                                   const FrozenTables& frozen);

/// A layer that predicts further tokens (train/mtp/mtp_pass.h).
TrainedNetwork make_mtp_network(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                                const FrozenTables& frozen);

class DrafterTrainer {
 public:
  /// Anchors of one document, ascending.
  using Anchors = std::vector<int32_t>;

  /// embedding and head: [vocab, hidden], the target's and frozen; both are copied unless they are the same memory, in
  /// which case one copy serves. Weights are 0 and norms 1 until initialise() or until the caller fills parameters().
  /// `replicas`: of this trainer, on other devices, which make the same calls with the same documents, each of them
  /// somewhere; null: there are none. Weights and moments that are the same stay the same in all of them, to the bit
  /// where the devices are alike, and reports are the same.
  DrafterTrainer(TrainOps& ops, const TrainShape& shape, const TrainSettings& settings,
                 std::span<const float> embedding, std::span<const float> head, AllReduce* replicas = nullptr,
                 MakeNetwork make_network = make_block_network);
  ~DrafterTrainer();
  DrafterTrainer(const DrafterTrainer&) = delete;
  DrafterTrainer& operator=(const DrafterTrainer&) = delete;

  /// Normal noise of deviation 0.02 for matrices and tables, 1 for norms, 0 for moments: a function of seed, name and
  /// index. Convolutions and what is added to logits change nothing at first.
  void initialise(uint64_t seed);

  /// Forward, backward, clipping and optimiser. Anchors are a function of seed, step and the document's place in the
  /// batch: as many supervised tokens with a supervised successor as there are, at most max_anchors.
  TrainReport step(std::span<const TrainDocument> batch);
  TrainReport step(std::span<const TrainDocument> batch, std::span<const Anchors> anchors);

  /// Forward and backward alone: the gradients in parameters() become those of this batch.
  TrainReport differentiate(std::span<const TrainDocument> batch, std::span<const Anchors> anchors);

  /// Forward alone, of this replica alone, with the same anchors whenever it is called.
  TrainReport evaluate(std::span<const TrainDocument> batch) const;
  TrainReport evaluate(std::span<const TrainDocument> batch, std::span<const Anchors> anchors) const;

  int64_t steps_done() const;
  /// For resuming: with the parameters' values and moments as they were, what follows is the same to the bit.
  void set_steps_done(int64_t steps);

  /// The first position of a document at which a block may begin.
  int32_t first_anchor() const;
  /// Waits for the device.
  std::span<const TrainParameter> parameters();
  const TrainShape& shape() const;
  const TrainSettings& settings() const;
  /// Memory that a step of documents of `tokens` tokens each needs besides parameters and head, in bytes: about.
  size_t step_bytes(int64_t tokens) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ashlar
