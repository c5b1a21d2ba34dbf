// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/width_grid.h"

#include <algorithm>

#include "base/error.h"
#include "measure/engine/batch_bench.h"
#include "measure/report/table.h"

namespace ashlar {
namespace {

constexpr int32_t kPromptRows = 512;
constexpr int32_t kWarmTokens = 16;

double per_second(const BatchBench::Turn& turn) {
  return turn.ns > 0 ? static_cast<double>(turn.tokens) * 1e9 / static_cast<double>(turn.ns) : 0;
}

void add(BatchBench::Turn& sum, const BatchBench::Turn& turn) {
  sum.tokens += turn.tokens;
  sum.ns += turn.ns;
  sum.spans += turn.spans;
  sum.rows += turn.rows;
}

// Sequences of `context` tokens that begin at different places of the prompts, so that they go different ways.
std::vector<std::vector<int32_t>> contexts_of(const BenchSubject& subject, int32_t context, int32_t n) {
  std::vector<int32_t> all;
  for (const std::vector<int32_t>& prompt : subject.prompts) all.insert(all.end(), prompt.begin(), prompt.end());
  std::vector<std::vector<int32_t>> sequences(static_cast<size_t>(n));
  for (size_t s = 0; s < sequences.size(); ++s) {
    // Ends are ends of prompts, where an answer begins.
    size_t end = 0;
    for (size_t i = 0; i <= s % subject.prompts.size(); ++i) end += subject.prompts[i].size();
    for (int32_t i = 0; i < context; ++i) {
      const size_t back = static_cast<size_t>(context - i) % all.size();
      sequences[s].push_back(all[(end + all.size() - back) % all.size()]);
    }
  }
  return sequences;
}

// Two benches of the same sequences: without drafter, and with it.
class Pair {
 public:
  Pair(const BenchSubject& subject, const WidthGrid& grid, int32_t context, int32_t n, int32_t max_tokens) {
    const std::vector<std::vector<int32_t>> prompts = contexts_of(subject, context, n);
    plain_ = std::make_unique<BatchBench>(*subject.ops, make_decoder(*subject.model, DecoderSpec{}), prompts,
                                          max_tokens, kPromptRows);
    DecoderSpec drafted = subject.drafted;
    drafted.ngram = NgramUse::kNever;  // contexts that repeat themselves would be all that is measured
    drafted_ = std::make_unique<BatchBench>(*subject.ops, make_decoder(*subject.model, drafted), prompts, max_tokens,
                                            kPromptRows);
    widths_ = grid.widths;
  }

  WidthGridCell measure(const WidthGridOptions& options, int32_t first, int32_t n) {
    BatchBench::Turn plain, chosen;
    std::vector<BatchBench::Turn> fixed(widths_.size());
    plain_->run(first, n, kWarmTokens, 1);
    drafted_->run(first, n, kWarmTokens, 0);
    for (int32_t round = 0; round < options.rounds; ++round) {
      add(plain, plain_->run(first, n, options.tokens, 1));
      for (size_t w = 0; w < widths_.size(); ++w) add(fixed[w], drafted_->run(first, n, options.tokens, widths_[w]));
      add(chosen, drafted_->run(first, n, options.tokens, 0));
    }
    WidthGridCell cell;
    cell.sequences = n;
    cell.plain = per_second(plain);
    cell.chosen = per_second(chosen);
    cell.rows = static_cast<double>(chosen.rows) / static_cast<double>(std::max<int64_t>(1, chosen.spans));
    for (const BatchBench::Turn& turn : fixed) cell.fixed.push_back(per_second(turn));
    cell.best = static_cast<size_t>(std::ranges::max_element(cell.fixed) - cell.fixed.begin());
    return cell;
  }

  void compare(int32_t n, WidthGrid& grid) const {
    for (int32_t s = 0; s < n; ++s) {
      const std::span<const int32_t> a = plain_->decoded(s), b = drafted_->decoded(s);
      for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        ++grid.compared;
        grid.identical += a[i] == b[i] ? 1 : 0;
      }
    }
  }

 private:
  std::vector<int32_t> widths_;
  std::unique_ptr<BatchBench> plain_, drafted_;
};

// Levels take sequences in turn: of how many the busiest is part.
int32_t max_levels(const std::vector<int32_t>& levels) {
  const int32_t n = levels.back();
  std::vector<int32_t> parts(static_cast<size_t>(n));
  int32_t first = 0;
  for (const int32_t level : levels) {
    for (int32_t i = 0; i < level; ++i) ++parts[static_cast<size_t>((first + i) % n)];
    first += level;
  }
  return *std::ranges::max_element(parts);
}

void check(const BenchSubject& subject, const WidthGridOptions& options, int32_t max_tokens) {
  if (subject.prompts.empty()) throw Error("bench", "there are no prompts to measure with");
  if (subject.drafted.drafter.empty()) {
    throw Error("bench", "no drafter is given; widths by context are those of a drafter's drafts (--drafter)");
  }
  if (subject.drafted.dflash.width != 0) {
    throw Error("bench", "width " + std::to_string(subject.drafted.dflash.width) +
                             " is fixed; expected none, since the decoder's choice is what is measured");
  }
  const int32_t needed = options.contexts.back() + max_tokens + kMaxWidth;
  if (needed > subject.model->max_positions()) {
    throw Error("bench", "the context holds " + std::to_string(subject.model->max_positions()) + " tokens; " +
                             std::to_string(needed) + " are needed: give a smaller --contexts");
  }
}

}  // namespace

WidthGrid run_width_grid(const BenchSubject& subject, const WidthGridOptions& options, const BenchProgress& progress) {
  WidthGrid grid;
  grid.options = options;
  std::ranges::sort(grid.options.contexts);
  std::ranges::sort(grid.options.concurrency);
  const int32_t widest =
      subject.drafted.drafter.empty() ? 0 : make_decoder(*subject.model, subject.drafted)->max_width();
  for (const int32_t width : options.widths) {
    if (width < widest) grid.widths.push_back(width);
  }
  grid.widths.push_back(widest);
  // A turn's last step overshoots.
  const auto turns = static_cast<int32_t>(grid.widths.size() + 1) * options.rounds;
  const int32_t level_tokens = turns * (options.tokens + widest) + kWarmTokens + widest;
  const int32_t max_tokens = max_levels(grid.options.concurrency) * level_tokens;
  check(subject, grid.options, max_tokens);
  const int32_t most = grid.options.concurrency.back();
  const auto cells = static_cast<int64_t>(grid.options.contexts.size() * grid.options.concurrency.size());
  for (const int32_t context : grid.options.contexts) {
    Pair pair(subject, grid, context, most, max_tokens);
    int32_t first = 0;
    for (const int32_t n : grid.options.concurrency) {
      grid.cells.push_back(pair.measure(grid.options, first % most, n));
      grid.cells.back().context = context;
      first += n;
      if (progress) progress("contexts and sequences", static_cast<int64_t>(grid.cells.size()), cells);
    }
    pair.compare(most, grid);
  }
  return grid;
}

std::string width_grid_text(const WidthGrid& grid) {
  TextTable table({"context", "at once", "plain tokens/s", "chosen tokens/s", "rows", "x plain", "best width",
                   "best x plain", "chosen / best"});
  for (const WidthGridCell& cell : grid.cells) {
    const bool plain_is_best = cell.plain >= cell.fixed[cell.best];
    table.add({std::to_string(cell.context), std::to_string(cell.sequences), three_digits(cell.plain),
               three_digits(cell.chosen), fixed(cell.rows, 1), fixed(cell.chosen / cell.plain, 2),
               plain_is_best ? "plain" : std::to_string(grid.widths[cell.best]),
               fixed(cell.best_fixed() / cell.plain, 2), fixed(cell.chosen / cell.best_fixed(), 2)});
  }
  return "Drafting by context and sequences at once, greedy, prompts not included:\n" + table.render() +
         "  identical tokens: " + std::to_string(grid.identical) + " of " + std::to_string(grid.compared) + "\n";
}

Json width_grid_json(const WidthGrid& grid) {
  Json cells = Json::array();
  for (const WidthGridCell& cell : grid.cells) {
    Json widths = Json::object();
    for (size_t w = 0; w < grid.widths.size(); ++w) widths[std::to_string(grid.widths[w])] = cell.fixed[w];
    cells.push_back({{"context", cell.context},
                     {"sequences", cell.sequences},
                     {"plain_tokens_per_second", cell.plain},
                     {"chosen_tokens_per_second", cell.chosen},
                     {"rows_per_span", cell.rows},
                     {"fixed_width_tokens_per_second", widths},
                     {"speed_up", cell.chosen / cell.plain},
                     {"of_best_fixed", cell.chosen / cell.best_fixed()}});
  }
  return {{"rounds", grid.options.rounds},
          {"tokens_per_turn", grid.options.tokens},
          {"identity", {{"compared", grid.compared}, {"identical", grid.identical}}},
          {"cells", cells}};
}

}  // namespace ashlar
