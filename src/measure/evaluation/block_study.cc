// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/block_study.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ashlar {
namespace {

double share_of(int64_t a, int64_t b) { return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0; }

// Blocks that positions [first, first + n) lie in.
int64_t blocks_of(int64_t first, int64_t n, int64_t block) {
  return n > 0 ? (first + n - 1) / block - first / block + 1 : 0;
}

}  // namespace

double BlockCell::forwards_per_block() const { return share_of(forwards, blocks); }
double BlockCell::tokens_per_second() const { return 1e9 * share_of(tokens, ns); }
double BlockCell::identical_share() const { return share_of(identical, static_cast<int64_t>(agreement.size())); }

double agreement_of(const std::vector<int32_t>& expected, const std::vector<int32_t>& found) {
  const size_t longer = std::max(expected.size(), found.size());
  if (longer == 0) return 1;
  const auto differs = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  return static_cast<double>(differs.first - expected.begin()) / static_cast<double>(longer);
}

BlockStudy::BlockStudy(BlockStudyOptions options, std::vector<PromptIds> prompts)
    : options_(std::move(options)), prompts_(std::move(prompts)) {}

void BlockStudy::run_sequential(Engine& engine, int32_t block, const OnCompleted& progress) {
  block_ = block;
  reference_.clear();
  run(engine, {"sequential", {}}, progress);
}

void BlockStudy::run(Engine& engine, const AlgorithmSpec& algorithm, const OnCompleted& progress) {
  ASHLAR_CHECK(block_ > 0);  // run_sequential comes first
  std::vector<Request> requests;
  for (const PromptIds& prompt : prompts_) {
    Request& request = requests.emplace_back();
    request.prompt = prompt.ids;
    request.sampling = options_.sampling;
    request.max_tokens = options_.max_tokens;
    request.stop_ids = options_.stop_ids;
  }
  const std::vector<Completion> answers = complete(engine, std::move(requests), options_.batch, [&](int64_t done) {
    if (progress) progress(done_ + done);
  });
  done_ += static_cast<int64_t>(answers.size());
  if (reference_.empty()) {
    for (const Completion& answer : answers) reference_.push_back(answer.tokens);
  }
  BlockCell& cell = cells_.emplace_back();
  cell.algorithm = algorithm;
  cell.block = block_;
  for (size_t p = 0; p < answers.size(); ++p) {
    const RequestStats& stats = answers[p].stats;
    const int64_t first = options_.blocks_from_answer ? 0 : stats.prompt_tokens;
    cell.tokens += stats.generated_tokens;
    cell.forwards += stats.verify_steps;
    cell.blocks += blocks_of(first, stats.generated_tokens, block_);
    cell.ns += stats.finished_ns - stats.admitted_ns;
    cell.identical += answers[p].tokens == reference_[p] ? 1 : 0;
    cell.prompt_tokens.push_back(stats.generated_tokens);
    cell.prompt_forwards.push_back(stats.verify_steps);
    cell.agreement.push_back(agreement_of(reference_[p], answers[p].tokens));
  }
}

}  // namespace ashlar
