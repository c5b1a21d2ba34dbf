// SPDX-License-Identifier: Apache-2.0
#pragma once
// An acceptance study as text, JSON and picture.

#include <string>

#include "io/json.h"
#include "measure/evaluation/acceptance_study.h"

namespace ashlar {

/// Tables for a terminal: acceptance length by temperature and width, then positions, lengths and categories at the
/// first width.
std::string acceptance_text(const AcceptanceStudy& study);
/// Every figure, without provenance.
Json acceptance_json(const AcceptanceStudy& study);
/// Acceptance by position and the histogram of lengths at the first width, one colour a temperature. `title` stands
/// above.
std::string acceptance_svg(const AcceptanceStudy& study, const std::string& title);

}  // namespace ashlar
