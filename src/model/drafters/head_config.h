// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which head a drafter has, and what its config.json says of it. A head is a row of a table, and what it needs besides
// the backbone that all share.

#include <string>
#include <vector>

#include "io/json.h"
#include "model/drafters/dflash_config.h"

namespace ashlar {

/// The head that `variant` (dflash_config) or the file around it names. Throws Error("drafter", ...) for an unknown
/// one, with the names of those that are known.
std::string head_of_zlab(const JsonFields& fields, const JsonFields& variant);
/// The same of a file in the speculators form.
std::string head_of_speculators(const JsonFields& fields);

enum class MissingValues : uint8_t { kRefused, kSpeculatorsDefaults };

/// What config.head needs to know, from `inner` or where that has nothing from `outer`. The rest of `config` has been
/// read. Throws Error("drafter", ...) for what this head cannot compute.
void read_head(const JsonFields& inner, const JsonFields& outer, MissingValues missing, DflashConfig& config);

/// Heads that add_head() gives a drafter, the plain one first.
std::vector<std::string> designed_heads();
/// Gives a drafter with the plain head one of those, with the sizes that published drafters have, as far as they fit
/// this one. Throws Error("drafter", ...) for another head, or if the drafter has one already that is not this.
void add_head(const std::string& name, DflashConfig& config);

/// What z-lab's form says of config.head: the architecture, and what else read_head() reads, for dflash_config.
std::string architecture_of_head(const DflashConfig& config);
Json words_of_head(const DflashConfig& config);
/// The architecture in the speculators form, of a head that exists there.
std::string speculators_architecture(const DflashConfig& config);

}  // namespace ashlar
