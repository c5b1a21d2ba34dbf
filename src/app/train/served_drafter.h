// SPDX-License-Identifier: Apache-2.0
#pragma once
// A drafter's folder as it will be served: started, measured, and what is written of that.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "measure/evaluation/acceptance.h"
#include "session/session.h"
#include "train/run/served_evaluation.h"

namespace ashlar {

/// Answers the prompts of these documents with the drafter alone, chains of its whole block of `block` positions: what
/// training expects, with the code of serving. `title`: of the progress; `stop`: as there. No engine runs after it.
/// Throws as Session::start and evaluate_as_served.
ServedEvaluation evaluate_served(Session& session, const std::filesystem::path& drafter, int32_t block,
                                 const DocumentSet& documents, const std::vector<size_t>& held_out, int32_t max_tokens,
                                 const std::string& title, const std::function<bool()>& stop = {});

/// The drafter's record (docs/HACKING.md), for the self-test at the start of other commands; none where hardly any
/// draft is right.
void write_record(const std::filesystem::path& folder, const AcceptanceTally& served);

}  // namespace ashlar
