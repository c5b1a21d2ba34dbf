// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decodes the same prompts by several denoising algorithms, and compares their answers with filling each block from
// left to right, one position a pass.

#include <string>
#include <vector>

#include "decode/block/algorithms.h"
#include "measure/completion.h"
#include "measure/evaluation/acceptance_study.h"

namespace ashlar {

struct BlockStudyOptions {
  int32_t max_tokens = 128;
  std::vector<int32_t> stop_ids;
  SamplingParams sampling;
  int32_t batch = 1;  ///< requests at a time
  /// Blocks are counted from the answer's first token, not from position 0 (models without blocks of their own).
  bool blocks_from_answer = false;
};

/// All prompts by one algorithm at one block length.
struct BlockCell {
  AlgorithmSpec algorithm;
  int32_t block = 0;
  int64_t tokens = 0;
  int64_t forwards = 0;   ///< passes of the answers; KV commit passes share a pass with the next block
  int64_t blocks = 0;     ///< that answers touch, begun and unfinished ones included
  int64_t ns = 0;         ///< from the first step of each answer to its end, prompt included, added up
  int64_t identical = 0;  ///< answers that are the sequential ones
  std::vector<double> prompt_tokens, prompt_forwards;
  std::vector<double> agreement;  ///< by prompt: share of positions before the first that differs; 1: identical

  Ratio tokens_per_forward() const { return pooled_ratio(prompt_tokens, prompt_forwards); }
  double forwards_per_block() const;
  double tokens_per_second() const;
  double identical_share() const;
  Ratio mean_agreement() const { return {mean(agreement), standard_error(agreement), agreement.size()}; }
};

class BlockStudy {
 public:
  BlockStudy(BlockStudyOptions options, std::vector<PromptIds> prompts);

  /// Decodes all prompts with an engine whose decoder has this block length and fills blocks sequentially; what follows
  /// is compared with it. Its cell agrees with itself.
  void run_sequential(Engine& engine, int32_t block, const OnCompleted& progress);
  /// Decodes all prompts with an engine whose decoder has this algorithm and the block length of run_sequential.
  void run(Engine& engine, const AlgorithmSpec& algorithm, const OnCompleted& progress);

  const BlockStudyOptions& options() const { return options_; }
  size_t prompts() const { return prompts_.size(); }
  const std::vector<BlockCell>& cells() const { return cells_; }

 private:
  BlockStudyOptions options_;
  std::vector<PromptIds> prompts_;
  int32_t block_ = 0;
  std::vector<std::vector<int32_t>> reference_;  // by prompt; of the newest run_sequential
  std::vector<BlockCell> cells_;
  int64_t done_ = 0;
};

/// Share of the longer answer's positions before the first that differs; 1 of equal ones.
double agreement_of(const std::vector<int32_t>& expected, const std::vector<int32_t>& found);

}  // namespace ashlar
