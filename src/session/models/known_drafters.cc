// SPDX-License-Identifier: Apache-2.0
#include "session/models/known_drafters.h"

#include <string_view>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/user_folders.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr char kPublished[] = {
#include "session/models/generated/drafters.json.inc"
};

void add(DrafterTable& table, const Json& pairs, const std::string& name) {
  const auto fail = [&name](const std::string& what) {
    throw Error("drafter", name + ": " + what + "; expected {\"ORG/MODEL\": \"ORG/DRAFTER\", ...}");
  };
  if (!pairs.is_object()) fail("is no object");
  for (const auto& [model, drafter] : pairs.items()) {
    if (!hub::parse_repo_ref(model) || model.find('@') != std::string::npos)
      fail(for_message(model) + " is no name of a model");
    if (drafter.is_null()) {
      table.erase(model);
    } else if (drafter.is_string() && hub::parse_repo_ref(drafter.get<std::string>())) {
      table[model] = drafter.get<std::string>();
    } else {
      fail("the drafter of " + model + " is " + for_message(drafter.dump()));
    }
  }
}

}  // namespace

DrafterTable drafter_table(const fs::path& own) {
  DrafterTable table;
  add(table, parse_json({kPublished, sizeof kPublished}, "drafters.json"), "drafters.json");
  if (!own.empty() && file_exists(own)) add(table, read_json_file(own), own.string());
  return table;
}

fs::path own_drafter_table() {
  const fs::path folder = user_folder(UserFolder::kConfig);
  return folder.empty() ? folder : folder / "drafters.json";
}

std::optional<hub::RepoRef> drafter_for(const std::string& model, const DrafterTable& table) {
  const auto at = table.find(model);
  if (at == table.end()) return std::nullopt;
  return hub::parse_repo_ref(at->second);
}

std::optional<std::string> model_for(const std::string& drafter, const DrafterTable& table) {
  for (const auto& [model, one] : table) {
    if (hub::parse_repo_ref(one)->repo == drafter) return model;
  }
  return std::nullopt;
}

std::string named_verifier(const fs::path& drafter) {
  if (!file_exists(drafter / "config.json")) return {};  // a GGUF file
  const Json config = read_json_file(drafter / "config.json");
  const Json* at = &config;
  for (const char* key : {"speculators_config", "verifier", "name_or_path"}) {
    if (!at->is_object() || !at->contains(key)) return {};
    at = &(*at)[key];
  }
  return at->is_string() ? at->get<std::string>() : std::string();
}

}  // namespace ashlar
