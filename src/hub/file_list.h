// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a repository holds, and which of it an engine needs.

#include <string>
#include <string_view>
#include <vector>

namespace ashlar::hub {

/// A revision as the hub's API describes it.
struct RepoInfo {
  std::string commit;              ///< 40 hexadecimal digits
  std::vector<std::string> files;  ///< paths within the repository, each one safe (is_safe_path), none twice
};

/// Most bytes of a description, and most files it may name.
inline constexpr size_t kMaxInfoBytes = size_t{32} << 20;
inline constexpr size_t kMaxFiles = 100'000;

/// Reads the JSON answer of GET api/models/REPO/revision/REVISION. `name` stands for it in errors. Throws Error("hub",
/// ...) or Error("json", ...) if a field is missing or of the wrong type, a name is not safe, a file stands where
/// another one needs a folder, or there is too much of it.
RepoInfo parse_repo_info(std::string_view body, const std::string& name);

/// Whether an engine needs the file: configuration, weights in safetensors form at the top, tokenizer, chat templates,
/// README and licence.
bool is_engine_file(std::string_view path);

/// The files of the list that an engine needs, in its order. Weights in a second form ("consolidated...") are left out
/// where "model..." weights are there.
std::vector<std::string> engine_files(const std::vector<std::string>& files);

}  // namespace ashlar::hub
