// SPDX-License-Identifier: Apache-2.0
#pragma once
// A study of denoising algorithms as text, JSON and picture.

#include <string>

#include "io/json.h"
#include "measure/evaluation/block_study.h"

namespace ashlar {

/// A table for a terminal, one line a cell.
std::string block_study_text(const BlockStudy& study);
/// Every figure, without provenance.
Json block_study_json(const BlockStudy& study);
/// Tokens per forward against agreement with sequential decoding: one line an algorithm and block length.
std::string block_study_svg(const BlockStudy& study, const std::string& title);

}  // namespace ashlar
