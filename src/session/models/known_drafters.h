// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which published drafter belongs to which published model: drafters.json, and what a person's own file adds to it.

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "hub/names.h"

namespace ashlar {

/// Names on the hub, "ORG/MODEL" to "ORG/DRAFTER".
using DrafterTable = std::map<std::string, std::string>;

/// The table that comes with the program, changed by `own`, which is a JSON object of the same form; null for a drafter
/// removes a model. No such file: as it comes. Throws Error naming the file if it says anything else.
DrafterTable drafter_table(const std::filesystem::path& own);

/// ashlar/drafters.json in $XDG_CONFIG_HOME or ~/.config; empty if there is no such place.
std::filesystem::path own_drafter_table();

/// The drafter for a model, and the model of a drafter, by a table.
std::optional<hub::RepoRef> drafter_for(const std::string& model, const DrafterTable& table);
std::optional<std::string> model_for(const std::string& drafter, const DrafterTable& table);

/// The model that a drafter's own configuration names, as speculators writes it (speculators_config.verifier):
/// "ORG/MODEL" or a path. Empty if it names none.
std::string named_verifier(const std::filesystem::path& drafter);

}  // namespace ashlar
