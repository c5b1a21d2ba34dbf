// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/block_report.h"

#include <algorithm>
#include <cstdio>

#include "measure/engine/ratio_report.h"
#include "measure/report/table.h"
#include "measure/report/xy_chart.h"

namespace ashlar {
namespace {

double value_of(const AlgorithmSpec& algorithm, const AlgorithmParameter& parameter) {
  const auto given = algorithm.values.find(parameter.key);
  return given == algorithm.values.end() ? parameter.usual : given->second;
}

// The parameter that is varied, and others with an unusual value; all of them are in the JSON report.
std::string block_parameters(const AlgorithmSpec& algorithm) {
  const std::vector<AlgorithmParameter>& all = find_algorithm(algorithm.name).parameters;
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    const double value = value_of(algorithm, all[i]);
    if (i > 0 && value == all[i].usual) continue;
    char number[32];
    std::snprintf(number, sizeof number, "%g", value);
    text += (text.empty() ? "" : ", ") + std::string(all[i].key) + " " + number;
  }
  return text;
}

double sequential_speed(const BlockStudy& study, int32_t block) {
  for (const BlockCell& cell : study.cells()) {
    if (cell.block == block) return cell.tokens_per_second();  // it comes first
  }
  return 0;
}

}  // namespace

std::string block_study_text(const BlockStudy& study) {
  TextTable table({"algorithm", "parameters", "block", "tokens", "forwards", "tokens per forward", "forwards per block",
                   "tokens/s", "x sequential", "identical", "agreement"});
  for (const BlockCell& cell : study.cells()) {
    const double plain = sequential_speed(study, cell.block);
    table.add({find_algorithm(cell.algorithm.name).name, block_parameters(cell.algorithm), std::to_string(cell.block),
               std::to_string(cell.tokens), std::to_string(cell.forwards), ratio_text(cell.tokens_per_forward(), 3),
               fixed(cell.forwards_per_block(), 2), three_digits(cell.tokens_per_second()),
               plain > 0 ? fixed(cell.tokens_per_second() / plain, 2) : "-",
               std::to_string(cell.identical) + " of " + std::to_string(cell.agreement.size()),
               ratio_text(cell.mean_agreement(), 3)});
  }
  return "Denoising algorithms (± standard error over prompts):\n" + table.render() +
         "  tokens per forward: tokens of the answers / passes; a KV commit pass shares the pass of the next block\n"
         "  tokens/s:           from the first step of each answer to its end, prompt included\n"
         "  identical:          answers that are those of sequential decoding, one position a pass, same block\n"
         "  agreement:          mean share of an answer's positions before the first that differs from them\n";
}

Json block_study_json(const BlockStudy& study) {
  Json cells = Json::array();
  for (const BlockCell& cell : study.cells()) {
    const AlgorithmDescription& algorithm = find_algorithm(cell.algorithm.name);
    Json parameters = Json::object();
    for (const AlgorithmParameter& parameter : algorithm.parameters)
      parameters[parameter.key] = value_of(cell.algorithm, parameter);
    cells.push_back({{"algorithm", algorithm.name},
                     {"parameters", parameters},
                     {"block_size", cell.block},
                     {"generated_tokens", cell.tokens},
                     {"forwards", cell.forwards},
                     {"blocks", cell.blocks},
                     {"tokens_per_forward", ratio_json(cell.tokens_per_forward())},
                     {"forwards_per_block", cell.forwards_per_block()},
                     {"tokens_per_second", cell.tokens_per_second()},
                     {"identical", cell.identical},
                     {"identical_share", cell.identical_share()},
                     {"agreement", ratio_json(cell.mean_agreement())}});
  }
  return {{"options",
           {{"max_tokens", study.options().max_tokens},
            {"temperature", study.options().sampling.temperature},
            {"seed", study.options().sampling.seed},
            {"batch", study.options().batch}}},
          {"prompts", study.prompts()},
          {"cells", cells}};
}

std::string block_study_svg(const BlockStudy& study, const std::string& title) {
  bool several = false;
  for (const BlockCell& cell : study.cells()) several = several || cell.block != study.cells().front().block;
  std::vector<XySeries> series;
  for (const BlockCell& cell : study.cells()) {
    std::string name = find_algorithm(cell.algorithm.name).name;
    if (several) name += ", block " + std::to_string(cell.block);
    auto one = std::find_if(series.begin(), series.end(), [&](const XySeries& other) { return other.name == name; });
    if (one == series.end()) one = series.insert(one, {name, {}});
    one->points.emplace_back(cell.tokens_per_forward().value, cell.mean_agreement().value);
  }
  for (XySeries& one : series) std::sort(one.points.begin(), one.points.end());
  return xy_chart(title, "tokens per forward", "agreement with sequential decoding", series);
}

}  // namespace ashlar
