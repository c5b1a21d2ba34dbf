// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether what lies in the cache can be loaded. The hub's own tools point a revision's name at a snapshot before they
// fill it, so that a name says nothing about what is there.

#include <filesystem>
#include <string>
#include <vector>

namespace ashlar::hub {

/// What a repository is wanted for. A drafter needs no tokenizer: it speaks its model's tokens.
enum class Role { kModel, kDrafter };

/// What a snapshot lacks of config.json, tokenizer.json (or tokenizer.model) and the weights, which are those that the
/// index names, or else model.safetensors; of shards without their index, the index and those that their own names
/// imply. Empty: it can be loaded. Other files, such as chat templates, are not in every repository: their lack is not
/// seen. An index that is wrong names nothing here: the loader says why.
std::vector<std::string> missing_files(const std::filesystem::path& snapshot, Role role);

/// "a, b and 17 more": the first few of them, for messages.
std::string list_of_missing(const std::vector<std::string>& missing);

}  // namespace ashlar::hub
