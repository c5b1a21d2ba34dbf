// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models that are on this machine already: the bundled ones, and those that were pulled to the hub's cache.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ashlar {

struct LocalModel {
  std::string name;              ///< what commands take: a name under a root, or ORG/MODEL
  std::filesystem::path folder;  ///< of a pulled one: that of all its files and versions
  bool pulled = false;
  bool drafter = false;
};

/// Folders with a config.json and .gguf files right under `roots`, then the repositories of models in `cache`, each in
/// the order of names. A name under two roots is listed once, as the first root has it. What cannot be read is left
/// out.
std::vector<LocalModel> local_models(const std::vector<std::filesystem::path>& roots,
                                     const std::filesystem::path& cache);

/// Of a model's folder, or of a GGUF file and its further shards: bytes on disk, each content once. Walks all its
/// files.
int64_t bytes_on_disk(const std::filesystem::path& model);

/// Removes a pulled model, all its versions, from `cache`, and what was kept of its weights in `kept` (weights_cache.h;
/// empty: nothing is); what it freed in bytes. Throws Error("model", ...) if `name` is not ORG/MODEL or is not there,
/// if it is being pulled, or if its files cannot be removed.
int64_t remove_pulled(const std::string& name, const std::filesystem::path& cache, const std::filesystem::path& kept);

/// Why a folder or file that a model was expected in is none, and what to do: an adapter, weights that are
/// pickled, a file within a model's folder. Empty if it is nothing of that kind.
std::string what_it_is_instead(const std::filesystem::path& path);
/// "; ..." about a name such as qwen3:0.6b, which is how Ollama's library has it; empty for any other.
std::string about_tag(const std::string& name);

}  // namespace ashlar
