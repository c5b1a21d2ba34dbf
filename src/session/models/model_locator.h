// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where models are found: what a name on the command line means, and the bundled default.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/pull.h"

namespace ashlar {

/// The bundled model that fills blocks.
inline constexpr const char* kBundledBlockModel = "pebble-11m-sdar";

/// What names drafting without a drafter.
inline constexpr const char* kNgrams = "ngram";

/// What names drafting with a layer that the model's own checkpoint brings.
inline constexpr const char* kMtp = "mtp";
/// What the name of a drafter adds to that of its model, next to which it lies.
inline constexpr std::string_view kDrafterSuffixes[] = {"-dflash", "-eagle3"};

/// Model and drafter to load.
struct ModelChoice {
  std::filesystem::path model;                   ///< folder or GGUF file
  std::optional<std::filesystem::path> drafter;  ///< folder or GGUF file; the model's where that drafts itself
  bool drafter_was_found = false;                ///< not named, but lies next to the model or was pulled as its own
  bool drafts_itself = false;                    ///< with a layer of its own
  bool wants_ngrams = false;  ///< no drafter: what followed the same tokens before is drafted, where that works
};

/// Folders that may hold bundled models, in the order they are asked: $ASHLAR_MODELS, then `models` next to the
/// executable's folder, then `share/ashlar/models` next to it, then that of the sources, for a program in its build
/// folder.
std::vector<std::filesystem::path> model_roots();

/// What `model` and `drafter` mean. An empty model is the bundled one; a name that is no folder or .gguf file is looked
/// for under `roots`, and ORG/MODEL[@REVISION] then among the models that `ashlar pull` or the hub's own tools brought.
/// A drafter as the model means the model that its configuration or the table of published ones names, with this
/// drafter. An empty drafter is the folder `<model>-dflash` or `<model>-eagle3` (`<model>` without .gguf) next to the
/// model, or a file of that name and .gguf, if there is one, else the published one (known_drafters.h) if that was
/// pulled too, else the model's own layer if it has one that drafts ("mtp"), else n-grams; "ngram" is these alone,
/// "none" plain decoding. Throws Error("model", ...) or Error("drafter", ...) that says where it looked.
ModelChoice locate_models(const std::string& model, const std::string& drafter,
                          const std::vector<std::filesystem::path>& roots);

/// `name` as one of the hub's; nothing if it cannot be one, or if its first part is a folder here: then a path is
/// meant.
std::optional<hub::RepoRef> hub_name(const std::string& name);

/// What of a repository is in the hub's cache, as one wanted for `role`. One whose configuration says that it is a
/// drafter's counts as that, whatever it was named as.
hub::CachedSnapshot find_pulled(const hub::RepoRef& ref, hub::Role role);
/// The role that find_pulled takes it for.
hub::Role role_of(const hub::RepoRef& ref, hub::Role wanted);

/// The model that a drafter's folder is for, as its configuration or the table of published drafters names it:
/// "ORG/MODEL" or a path. Empty if neither does. Throws Error if a file of these is wrong.
std::string verifier_of(const std::filesystem::path& drafter);

/// Name of a folder or file for people: its last part that is one, without .gguf; ORG/MODEL for what was pulled.
std::string folder_name(const std::filesystem::path& folder);

}  // namespace ashlar
