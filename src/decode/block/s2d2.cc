// SPDX-License-Identifier: Apache-2.0
// Self-verification (S2D2, arXiv 2603.25702): the candidates of the first run of masked positions are drafts, and the
// same weights with blocks of one position verify them in a second pass, which gives one token at least and the token
// after the last that agrees for free. Whether a run is worth that pass is guessed from its entropies: with alpha_j =
// exp(-H_j / ln V) as the chance that draft j agrees, E[K] = sum over k of alpha_1 ... alpha_k drafts are expected to.
//
// The original accepts a draft with probability min(1, p / q) and draws from what is left of p otherwise. Here the
// token of each position is drawn from p with the noise that belongs to the position, and a draft is accepted if it is
// that token: the same distribution, p, and the same tokens whatever was drafted.

#include <cmath>

#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

class S2d2 final : public UnmaskAlgorithm {
 public:
  explicit S2d2(const std::map<std::string, double>& values)
      : threshold_(static_cast<float>(values.at("threshold"))),
        min_span_(static_cast<int32_t>(values.at("min_span"))),
        cost_(values.at("cost")),
        cut_(values.at("cut")),
        hysteresis_(values.at("hysteresis")) {}

  bool verifies() const override { return true; }

  Decision decide(const BlockView& block, AlgorithmMemory& memory) const override {
    Positions sure = 0;
    for (Positions left = block.open; left != 0; left &= left - 1) {
      const int32_t i = std::countr_zero(left);
      if (block.confidence[i] > threshold_) sure |= Positions{1} << i;
    }
    const Positions run = first_run(block.open);
    if (count(run) >= min_span_ && is_worth_it(block, run, count(sure), memory)) return {.verify = run};
    return {.unmask = sure != 0 ? sure : Positions{1} << most_confident(block, block.open)};
  }

 private:
  static Positions first_run(Positions open) {
    const int32_t first = std::countr_zero(open);
    return first_positions(std::countr_one(open >> first)) << first;
  }

  // memory.total: whether the newest run of this block was verified.
  bool is_worth_it(const BlockView& block, Positions run, int32_t sure, AlgorithmMemory& memory) const {
    const double log_vocab = std::log(static_cast<double>(block.vocab));
    double expected = 0;
    double all_agree = 1;
    for (; run != 0; run &= run - 1) {
      all_agree *= std::exp(-block.statistics[std::countr_zero(run)].entropy / log_vocab);
      expected += all_agree;
    }
    const double least = memory.total != 0 ? cut_ - hysteresis_ : cut_;
    memory.total = expected - cost_ * sure >= least ? 1 : 0;
    return memory.total != 0;
  }

  float threshold_;
  int32_t min_span_;
  double cost_;
  double cut_;
  double hysteresis_;
};

std::unique_ptr<UnmaskAlgorithm> make_s2d2(const std::map<std::string, double>& values, int32_t) {
  return std::make_unique<S2d2>(values);
}

}  // namespace

const AlgorithmKind kS2d2Algorithm = {
    {"s2d2",
     "drafts the first run of masked positions and verifies it with the same model, one token at a time in one pass",
     {{"min_span", 2, 1, 64, "masked positions in a row that are worth a pass of verification", true},
      {"threshold", 0.9, 0.0, 1.0, "without one, unmask tokens more likely than this"},
      {"cost", 0, 0.0, 64.0, "drafts that have to be expected for each token the threshold would unmask"},
      {"cut", 0, -64.0, 64.0, "drafts that have to be expected beyond those"},
      {"hysteresis", 0, 0.0, 64.0, "how many fewer are enough where the run before was verified"}},
     {"self_verification", "ssd_policy"}},
    make_s2d2};

}  // namespace ashlar
