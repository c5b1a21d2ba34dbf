// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/perplexity.h"

#include <cmath>

#include "base/clock.h"
#include "measure/report/table.h"

namespace ashlar {

std::vector<std::vector<int32_t>> text_windows(const std::vector<int32_t>& text, std::optional<int32_t> first,
                                               const PerplexityOptions& options) {
  std::vector<std::vector<int32_t>> windows;
  const auto length = static_cast<size_t>(options.window);
  for (size_t at = 0; at + length <= text.size() && (options.limit == 0 || windows.size() < options.limit);
       at += length) {
    const auto begin = text.begin() + static_cast<ptrdiff_t>(at);
    std::vector<int32_t>& window = windows.emplace_back(begin, begin + options.window);
    if (first) window.front() = *first;
  }
  return windows;
}

double Perplexity::value() const { return std::exp(nll.value); }
double Perplexity::error() const { return value() * nll.error; }

Perplexity measure_perplexity(Engine& engine, const std::vector<std::vector<int32_t>>& windows,
                              const PerplexityOptions& options, const OnCompleted& progress) {
  std::vector<Request> requests;
  for (const std::vector<int32_t>& window : windows) {
    Request& request = requests.emplace_back();
    request.prompt = window;
    request.prompt_only = true;
    request.prompt_logprobs.from = options.window / 2;
  }
  const int64_t start = now_ns();
  const std::vector<Completion> done = complete(engine, std::move(requests), options.batch, progress);
  Perplexity result;
  result.seconds = static_cast<double>(now_ns() - start) * 1e-9;
  result.windows = static_cast<int64_t>(done.size());
  std::vector<double> sums, counts;
  int64_t likeliest = 0;
  for (const Completion& window : done) {
    double sum = 0;
    for (const PromptToken& token : window.prompt) {
      sum -= token.logprobs.token;
      likeliest += token.rank == 1 ? 1 : 0;
    }
    sums.push_back(sum);
    counts.push_back(static_cast<double>(window.prompt.size()));
    result.tokens += static_cast<int64_t>(window.prompt.size());
  }
  result.nll = pooled_ratio(sums, counts);
  if (result.tokens > 0) result.top_share = static_cast<double>(likeliest) / static_cast<double>(result.tokens);
  return result;
}

std::string windows_text(int64_t windows, int32_t window) {
  const std::string count = windows == 1 ? "half of a window" : "halves of " + std::to_string(windows) + " windows";
  return "the second " + count + " of " + std::to_string(window);
}

std::string perplexity_text(const Perplexity& result, const PerplexityOptions& options) {
  const double tokens = static_cast<double>(result.windows) * options.window;
  const std::string error = result.nll.has_error() ? " +- " + fixed(result.error(), 4) : "";
  return "perplexity " + fixed(result.value(), 4) + error + " (" + fixed(result.nll.value, 4) + " nats a token)\n" +
         percent(result.top_share) + " of the tokens were the likeliest\n" + std::to_string(result.tokens) +
         " tokens, " + windows_text(result.windows, options.window) + "; " + three_digits(tokens / result.seconds) +
         " tokens/s\n";
}

Json perplexity_json(const Perplexity& result, const PerplexityOptions& options) {
  return {{"perplexity", result.value()}, {"standard_error", result.nll.has_error() ? Json(result.error()) : Json()},
          {"nll", result.nll.value},      {"top_share", result.top_share},
          {"tokens", result.tokens},      {"windows", result.windows},
          {"window", options.window},     {"seconds", result.seconds}};
}

}  // namespace ashlar
