// SPDX-License-Identifier: Apache-2.0
#include "measure/evaluation/denoise_study.h"

#include "measure/engine/ratio_report.h"
#include "measure/report/svg.h"
#include "measure/report/table.h"

namespace ashlar {

double DenoiseCell::ms_per_step() const {
  const double speed = tokens_per_second();
  return speed > 0 ? 1e3 * tally.acceptance_length_per_step().value / speed : 0;
}

std::string denoise_text(const std::vector<DenoiseCell>& cells, int32_t width, double temperature) {
  TextTable table({"passes", "schedule", "accept length", "accepted at 1", "ms/step", "tokens/s", "x first row"});
  for (const DenoiseCell& cell : cells) {
    const Ratio length = cell.tally.acceptance_length_per_step();
    const auto positions = cell.tally.unconditional();
    const double base = cells.front().tokens_per_second();
    table.add({std::to_string(cell.passes), cell.schedule, ratio_text(length, 3),
               positions.empty() ? "-" : percent(positions[0]), three_digits(cell.ms_per_step()),
               three_digits(cell.tokens_per_second()), base > 0 ? fixed(cell.tokens_per_second() / base, 2) : "-"});
  }
  return "\nDrafter passes a block, width " + std::to_string(width) + ", temperature " + svg_number(temperature) +
         ":\n" + table.render();
}

Json denoise_json(const std::vector<DenoiseCell>& cells) {
  Json list = Json::array();
  for (const DenoiseCell& cell : cells) {
    const Ratio length = cell.tally.acceptance_length_per_step();
    list.push_back({{"passes", cell.passes},
                    {"schedule", cell.schedule},
                    {"acceptance_length_per_step", ratio_json(length)},
                    {"verify_steps", cell.tally.steps()},
                    {"generated_tokens", cell.tally.generated()},
                    {"ms_per_step", cell.ms_per_step()},
                    {"decode_tokens_per_second", cell.tokens_per_second()}});
  }
  return list;
}

}  // namespace ashlar
