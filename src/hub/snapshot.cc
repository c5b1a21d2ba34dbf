// SPDX-License-Identifier: Apache-2.0
#include "hub/snapshot.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <system_error>

#include "base/error.h"
#include "hub/names.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace ashlar::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr int kMaxShards = 10'000;
constexpr size_t kNamed = 4;  // files in a message

std::vector<std::string> shards_of(const fs::path& index) {
  std::set<std::string> shards;
  try {
    const Json json = read_json_file(index);
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) return {};
    for (const auto& [tensor, shard] : json["weight_map"].items()) {
      if (shard.is_string() && is_safe_path(shard.get<std::string>())) shards.insert(shard.get<std::string>());
    }
  } catch (const Error&) {
    return {};
  }
  return {shards.begin(), shards.end()};
}

// Of how many shards a file "model-00001-of-00002.safetensors" is one; 0: it is none.
int shard_count(const std::string& name) {
  int number = 0, count = 0, end = 0;
  if (std::sscanf(name.c_str(), "model-%5d-of-%5d.safetensors%n", &number, &count, &end) != 2) return 0;
  return static_cast<size_t>(end) == name.size() && count <= kMaxShards ? count : 0;
}

// The shards that the names of those that are there imply.
std::vector<std::string> announced_shards(const fs::path& snapshot) {
  int count = 0;
  std::error_code failed;
  for (fs::directory_iterator at(snapshot, failed), end; !failed && at != end; at.increment(failed)) {
    count = std::max(count, shard_count(at->path().filename().string()));
  }
  std::vector<std::string> shards;
  for (int i = 1; i <= count; ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, count);
    shards.emplace_back(name);
  }
  return shards;
}

}  // namespace

std::vector<std::string> missing_files(const fs::path& snapshot, Role role) {
  std::vector<std::string> missing;
  const auto need = [&](const std::string& file) {
    if (!file_exists(snapshot / file)) missing.push_back(file);
  };
  need("config.json");
  if (role == Role::kModel && !file_exists(snapshot / "tokenizer.model")) need("tokenizer.json");
  if (file_exists(snapshot / "model.safetensors")) return missing;
  const bool indexed = file_exists(snapshot / kIndex);
  const std::vector<std::string> shards = indexed ? shards_of(snapshot / kIndex) : announced_shards(snapshot);
  if (!indexed) missing.emplace_back(shards.empty() ? "model.safetensors" : kIndex);
  for (const std::string& shard : shards) need(shard);
  return missing;
}

std::string list_of_missing(const std::vector<std::string>& missing) {
  std::string text;
  const size_t shown = missing.size() > kNamed ? kNamed - 1 : missing.size();
  for (size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? "" : i + 1 == missing.size() ? " and " : ", ") + for_message(missing[i]);
  }
  if (shown < missing.size()) text += " and " + std::to_string(missing.size() - shown) + " more";
  return text;
}

}  // namespace ashlar::hub
