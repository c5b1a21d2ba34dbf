// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/ratio_report.h"

#include "measure/report/table.h"

namespace ashlar {

std::string ratio_text(const Ratio& ratio, int decimals) {
  if (ratio.pairs == 0) return "-";
  return fixed(ratio.value, decimals) + (ratio.pairs < 2 ? "" : " ± " + fixed(ratio.error, decimals));
}

Json ratio_json(const Ratio& ratio) { return {{"value", ratio.value}, {"standard_error", ratio.error}}; }

}  // namespace ashlar
