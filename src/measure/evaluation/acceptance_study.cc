// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/acceptance_study.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ashlar {

AcceptanceStudy::AcceptanceStudy(AcceptanceOptions options, std::vector<PromptIds> prompts)
    : options_(std::move(options)), prompts_(std::move(prompts)) {
  ASHLAR_CHECK(options_.sampling.scheme == SamplingScheme::kCoupled);
}

int64_t AcceptanceStudy::total_requests() const {
  const size_t runs = options_.widths.size() + (options_.identity ? 2 : 1);
  return static_cast<int64_t>(prompts_.size() * options_.temperatures.size() * runs);
}

std::vector<Completion> AcceptanceStudy::run(Engine& engine, double temperature, int32_t width,
                                             const OnCompleted& progress) {
  std::vector<Request> requests;
  for (const PromptIds& prompt : prompts_) {
    Request& request = requests.emplace_back();
    request.prompt = prompt.ids;
    request.sampling = options_.sampling;
    request.sampling.temperature = temperature;
    request.max_tokens = options_.max_tokens;
    request.stop_ids = options_.stop_ids;
    request.width = width;
  }
  const int64_t before = done_;
  std::vector<Completion> answers = complete(engine, std::move(requests), options_.batch, [&](int64_t done) {
    if (progress) progress(before + done);
  });
  done_ += static_cast<int64_t>(answers.size());
  return answers;
}

void AcceptanceStudy::run_plain(Engine& engine, const OnCompleted& progress) {
  for (const double temperature : options_.temperatures) {
    AcceptanceTally tally;
    auto& answers = plain_.emplace_back();
    for (Completion& answer : run(engine, temperature, 1, progress)) {
      tally.add(answer.stats);
      answers.push_back(std::move(answer.tokens));
    }
    plain_speed_.push_back(tally.decode_tokens_per_second());
  }
}

void AcceptanceStudy::run_drafted(Engine& engine, const OnCompleted& progress) {
  for (size_t t = 0; t < options_.temperatures.size(); ++t) {
    const double temperature = options_.temperatures[t];
    for (const int32_t width : options_.widths) {
      const std::vector<Completion> answers = run(engine, temperature, width, progress);
      AcceptanceCell& cell = cells_.emplace_back();
      cell.temperature = temperature;
      cell.width = width;
      for (size_t p = 0; p < answers.size(); ++p) {
        cell.all.add(answers[p].stats);
        if (!prompts_[p].category.empty()) cell.by_category[prompts_[p].category].add(answers[p].stats);
      }
      if (options_.identity) compare(answers, t, width);
    }
    if (options_.identity) compare(run(engine, temperature, 1, progress), t, 1);
  }
}

void AcceptanceStudy::compare(const std::vector<Completion>& answers, size_t temperature, int32_t width) {
  ASHLAR_CHECK_LT(temperature, plain_.size());  // run_plain comes first
  for (size_t p = 0; p < answers.size(); ++p) {
    ++compared_;
    const std::vector<int32_t>& expected = plain_[temperature][p];
    const std::vector<int32_t>& found = answers[p].tokens;
    if (found == expected) continue;
    const auto differs = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
    mismatches_.push_back({prompts_[p].name, options_.temperatures[temperature], width,
                           static_cast<size_t>(differs.first - expected.begin())});
  }
}

}  // namespace ashlar
