// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/acceptance_report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "measure/engine/ratio_report.h"
#include "measure/report/chart.h"
#include "measure/report/table.h"

namespace ashlar {
namespace {

// Shares of fewer steps than this say little.
constexpr int64_t kMinSteps = 20;

std::string temperature_name(double temperature) { return "temperature " + svg_number(temperature); }

// Cells of the first width, one a temperature.
std::vector<const AcceptanceCell*> first_width(const AcceptanceStudy& study) {
  std::vector<const AcceptanceCell*> cells;
  for (const AcceptanceCell& cell : study.cells()) {
    if (cell.width == study.options().widths.front()) cells.push_back(&cell);
  }
  return cells;
}

std::string value_at(const std::vector<double>& values, size_t i) {
  return i < values.size() && std::isfinite(values[i]) ? percent(values[i]) : "-";
}

std::string length_table(const AcceptanceStudy& study) {
  TextTable table({"temperature", "width", "prompts", "tokens", "steps", "length per step", "length per prompt",
                   "length generated", "accepted at 1", "tokens/s", "x plain"});
  const size_t widths = study.options().widths.size();
  for (size_t i = 0; i < study.cells().size(); ++i) {
    const AcceptanceCell& cell = study.cells()[i];
    const AcceptanceTally& tally = cell.all;
    const double plain =
        i / widths < study.plain_tokens_per_second().size() ? study.plain_tokens_per_second()[i / widths] : 0;
    const double speed = tally.decode_tokens_per_second();
    table.add({svg_number(cell.temperature), std::to_string(cell.width), std::to_string(tally.prompts()),
               std::to_string(tally.generated()), std::to_string(tally.steps()),
               ratio_text(tally.acceptance_length_per_step(), 3), ratio_text(tally.acceptance_length_per_prompt(), 3),
               ratio_text(tally.acceptance_length_generated(), 3), value_at(tally.unconditional(), 0),
               three_digits(speed), plain > 0 ? fixed(speed / plain, 2) : "-"});
  }
  return table.render();
}

std::string by_index_table(const std::vector<const AcceptanceCell*>& cells, const std::string& first, bool lengths) {
  std::vector<std::string> header = {first};
  size_t n = 0;
  std::vector<std::vector<double>> columns;
  for (const AcceptanceCell* cell : cells) {
    const std::string name = "T=" + svg_number(cell->temperature);
    if (lengths) {
      header.push_back(name);
      columns.push_back(cell->all.histogram());
    } else {
      header.push_back(name + " reached");
      header.push_back("given the one before");
      columns.push_back(cell->all.unconditional());
      columns.push_back(cell->all.conditional(kMinSteps));
    }
  }
  for (const auto& column : columns) {
    for (size_t i = 0; i < column.size(); ++i) {
      if (column[i] > 0) n = std::max(n, i + 1);
    }
  }
  TextTable table(header);
  for (size_t i = 0; i < n; ++i) {
    std::vector<std::string> row = {std::to_string(i + 1)};
    for (const auto& column : columns) row.push_back(value_at(column, i));
    table.add(row);
  }
  return table.render();
}

std::string category_table(const std::vector<const AcceptanceCell*>& cells) {
  std::vector<std::string> header = {"category", "prompts"};
  std::set<std::string> names;
  for (const AcceptanceCell* cell : cells) {
    header.push_back("T=" + svg_number(cell->temperature));
    for (const auto& [name, tally] : cell->by_category) names.insert(name);
  }
  if (names.empty()) return {};
  TextTable table(header);
  for (const std::string& name : names) {
    std::vector<std::string> row = {name, std::to_string(cells.front()->by_category.at(name).prompts())};
    for (const AcceptanceCell* cell : cells)
      row.push_back(ratio_text(cell->by_category.at(name).acceptance_length_per_step(), 3));
    table.add(row);
  }
  return "\nAcceptance length (tokens a step) by category:\n" + table.render();
}

Json shares_json(const std::vector<double>& shares) {
  Json list = Json::array();
  for (const double share : shares) list.push_back(std::isfinite(share) ? Json(share) : Json(nullptr));
  return list;
}

Json tally_json(const AcceptanceTally& tally) {
  return {{"prompts", tally.prompts()},
          {"generated_tokens", tally.generated()},
          {"verify_steps", tally.steps()},
          {"drafted", tally.drafted()},
          {"accepted", tally.accepted()},
          {"acceptance_length_per_step", ratio_json(tally.acceptance_length_per_step())},
          {"acceptance_length_per_prompt", ratio_json(tally.acceptance_length_per_prompt())},
          {"acceptance_length_generated", ratio_json(tally.acceptance_length_generated())},
          {"acceptance_by_position", shares_json(tally.unconditional())},
          {"conditional_acceptance_by_position", shares_json(tally.conditional())},
          {"length_counts", tally.length_counts()},
          {"decode_tokens_per_second", tally.decode_tokens_per_second()}};
}

}  // namespace

std::string acceptance_text(const AcceptanceStudy& study) {
  const auto cells = first_width(study);
  const std::string width = std::to_string(study.options().widths.front());
  std::string text = "Acceptance length (± standard error over prompts):\n" + length_table(study) +
                     "  length per step:   tokens of all verify steps / verify steps, bonus included, prompts pooled\n"
                     "  length per prompt: mean over prompts of each prompt's own length per step\n"
                     "  length generated:  generated tokens / verify steps; the prefill's first token is counted, its "
                     "forward is not\n";
  text += "\nAcceptance by draft position at width " + width + ":\n" + by_index_table(cells, "position", false);
  text += "\nTokens per verify step at width " + width + ":\n" + by_index_table(cells, "tokens", true);
  text += category_table(cells);
  if (!study.options().identity) return text + "\nidentical to plain decoding: not checked\n";
  text += "\nidentical to plain decoding: " +
          std::to_string(study.compared() - static_cast<int64_t>(study.mismatches().size())) + " of " +
          std::to_string(study.compared()) + " answers\n";
  for (const Mismatch& mismatch : study.mismatches()) {
    text += "  differs: " + mismatch.prompt + ", temperature " + svg_number(mismatch.temperature) + ", width " +
            std::to_string(mismatch.width) + ", from token " + std::to_string(mismatch.index + 1) + " on\n";
  }
  return text;
}

Json acceptance_json(const AcceptanceStudy& study) {
  const AcceptanceOptions& options = study.options();
  Json cells = Json::array();
  for (const AcceptanceCell& cell : study.cells()) {
    Json entry = {{"temperature", cell.temperature}, {"width", cell.width}};
    entry.update(tally_json(cell.all));
    Json categories = Json::object();
    for (const auto& [name, tally] : cell.by_category) categories[name] = tally_json(tally);
    if (!categories.empty()) entry["by_category"] = categories;
    cells.push_back(entry);
  }
  Json mismatches = Json::array();
  for (const Mismatch& mismatch : study.mismatches()) {
    mismatches.push_back({{"prompt", mismatch.prompt},
                          {"temperature", mismatch.temperature},
                          {"width", mismatch.width},
                          {"first_difference", mismatch.index}});
  }
  return {{"options",
           {{"temperatures", options.temperatures},
            {"widths", options.widths},
            {"max_tokens", options.max_tokens},
            {"seed", options.sampling.seed},
            {"top_p", options.sampling.top_p},
            {"top_k", options.sampling.top_k},
            {"batch", options.batch}}},
          {"prompts", study.prompts()},
          {"plain_tokens_per_second", study.plain_tokens_per_second()},
          {"cells", cells},
          {"identity",
           {{"checked", options.identity},
            {"compared", study.compared()},
            {"identical", study.compared() - static_cast<int64_t>(study.mismatches().size())},
            {"mismatches", mismatches}}}};
}

std::string acceptance_svg(const AcceptanceStudy& study, const std::string& title) {
  std::vector<ChartSeries> lines, bars;
  int color = 0;
  const auto cells = first_width(study);
  for (const AcceptanceCell* cell : cells) {
    const std::string length = ", acceptance length " + fixed(cell->all.acceptance_length_per_step().value, 2);
    lines.push_back({temperature_name(cell->temperature), cell->all.unconditional(), false, color});
    bars.push_back({temperature_name(cell->temperature) + length, cell->all.histogram(), false, color});
    ++color;
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    lines.push_back({i == 0 ? "dashed: given the one before" : "", cells[i]->all.conditional(kMinSteps), true,
                     static_cast<int>(i)});
  }
  constexpr double kWidth = 560, kHeight = 360;
  SvgWriter svg(2 * kWidth + 20, kHeight + 46);
  svg.text(16, 28, title, {{"font-size", "17"}, {"font-weight", "600"}, {"fill", "#222222"}});
  const std::string width = std::to_string(study.options().widths.front());
  draw_lines(svg,
             {4, 40, kWidth, kHeight, "Accepted drafts by position, width " + width, "draft position",
              "steps that accept it", 1.0},
             lines);
  draw_bars(svg,
            {kWidth + 16, 40, kWidth, kHeight, "Tokens per verify step (bonus included)", "tokens", "share of steps",
             chart_top(bars)},
            bars);
  return svg.finish();
}

}  // namespace ashlar
