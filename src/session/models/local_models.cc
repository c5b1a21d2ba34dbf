// SPDX-License-Identifier: Apache-2.0
#include "session/models/local_models.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "base/error.h"
#include "decode/drafters.h"
#include "hub/cache.h"
#include "hub/names.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/weights/checkpoint.h"
#include "session/weights_cache.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

bool drafts(const fs::path& folder) {
  try {
    return is_drafter_folder(folder);
  } catch (const Error&) {  // no JSON, or none at all: its loader says so
    return false;
  }
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    out.push_back(at->path());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_pulled_drafter(const fs::path& repo) {
  const std::vector<fs::path> versions = sorted_entries(repo / "snapshots");
  return std::any_of(versions.begin(), versions.end(), [](const fs::path& one) { return drafts(one); });
}

bool begins_as_gguf(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  char magic[4] = {};
  in.read(magic, sizeof magic);
  return in && std::string(magic, sizeof magic) == "GGUF";
}

std::string adapter_text(const fs::path& folder) {
  std::string base;
  try {
    const Json config = read_json_file(folder / "adapter_config.json");
    if (config.is_object() && config.contains("base_model_name_or_path") &&
        config["base_model_name_or_path"].is_string())
      base = config["base_model_name_or_path"].get<std::string>();
  } catch (const Error&) {  // what it adapts stays unsaid
  }
  return folder.string() + " is an adapter (LoRA)" + (base.empty() ? "" : " for " + base) +
         ", not a model; expected a model that is whole: merge it into its base (peft's merge_and_unload, then "
         "save_pretrained) and "
         "name that folder";
}

}  // namespace

std::vector<LocalModel> local_models(const std::vector<fs::path>& roots, const fs::path& cache) {
  std::vector<LocalModel> out;
  std::set<std::string> names;
  for (const fs::path& root : roots) {
    for (const fs::path& path : sorted_entries(root)) {
      const bool file = is_gguf(path) && file_exists(path);
      if (file && path != weight_files(path).front()) continue;  // a further shard of the model
      if (!file && !file_exists(path / "config.json")) continue;
      const std::string name = path.filename().string();
      if (names.insert(name).second) out.push_back({name, path, false, !file && drafts(path)});
    }
  }
  for (const fs::path& folder : sorted_entries(cache)) {
    const std::string name = hub::repo_of_folder_name(folder.filename().string());
    if (name.empty() || !hub::parse_repo_ref(name)) continue;
    out.push_back({name, folder, true, is_pulled_drafter(folder)});
  }
  return out;
}

// Of the files themselves: a snapshot's links lead to files that are counted where they are.
int64_t bytes_on_disk(const fs::path& path) {
  std::error_code failed;
  int64_t bytes = 0;
  if (is_gguf(path)) {
    for (const fs::path& file : weight_files(path)) bytes += static_cast<int64_t>(fs::file_size(file, failed));
    return bytes;
  }
  for (fs::recursive_directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code ignored;
    if (at->is_symlink(ignored) || !at->is_regular_file(ignored)) continue;
    const auto size = at->file_size(ignored);
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

int64_t remove_pulled(const std::string& name, const fs::path& cache, const fs::path& kept) {
  const auto ref = hub::parse_repo_ref(name);
  if (!ref || name.find('@') != std::string::npos) {
    throw Error("model",
                name +
                    " is not a model that was pulled; expected ORG/MODEL, as ashlar list has it: bundled models and " +
                    "files of your own stay where they are");
  }
  const std::string last = hub::folder_name_of(ref->repo);
  const fs::path folder = cache / last;
  std::error_code failed;
  if (!fs::is_directory(fs::symlink_status(folder, failed))) {
    throw Error("model",
                name + " is not among the models pulled to " + cache.string() + "; ashlar list shows those that are");
  }
  const std::unique_ptr<hub::FileLock> lock = hub::RepoCache(cache, ref->repo).lock_for_removal();
  if (!lock) {
    throw Error("model", name +
                             " is being fetched or removed by another process; end that one, or wait for it, and "
                             "remove it then");
  }
  int64_t bytes = bytes_on_disk(folder);
  for (const fs::path& version : sorted_entries(folder / "snapshots")) bytes += remove_kept_weights(kept, version);
  fs::remove_all(folder, failed);
  if (failed) throw Error("model", folder.string() + " cannot be removed: " + failed.message());
  fs::remove_all(cache / ".locks" / last, failed);
  return bytes;
}

std::string about_tag(const std::string& name) {
  if (name.find(':') == std::string::npos || name.find('/') != std::string::npos) return {};
  return "; a name with a tag is one of Ollama's library: find the model's repository on the hub, whose name is "
         "ORG/MODEL";
}

std::string what_it_is_instead(const fs::path& path) {
  std::error_code failed;
  if (fs::is_regular_file(path, failed)) {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (!is_gguf(path) && file_exists(folder / "config.json")) {
      return path.string() + " is a file of the model in " + folder.string() + "; name that folder";
    }
    if (path.extension() == ".bin" || path.extension() == ".pt" || path.extension() == ".pth" ||
        path.extension() == ".ckpt") {
      return path.string() +
             " holds pickled weights, which can run code when they are read; expected a folder with config.json and "
             "*.safetensors, or a .gguf file";
    }
    if (is_gguf(path)) return {};
    if (begins_as_gguf(path)) {  // as Ollama keeps them
      return path.string() + " is a GGUF file under another name; expected one that ends in .gguf: ln -s " +
             path.string() + " model.gguf, and name that";
    }
    return path.string() + " is a file; expected a folder with config.json and *.safetensors, or a .gguf file";
  }
  if (!fs::is_directory(path, failed)) return {};
  if (file_exists(path / "adapter_config.json") && !file_exists(path / "config.json")) return adapter_text(path);
  bool has_safetensors = false, has_pickled = false;
  for (const fs::path& entry : sorted_entries(path)) {
    const std::string file = entry.filename().string();
    if (file.ends_with(".safetensors")) has_safetensors = true;
    if (file.starts_with("pytorch_model") && file.ends_with(".bin")) has_pickled = true;
  }
  if (has_safetensors || !has_pickled || !file_exists(path / "config.json")) return {};
  return path.string() +
         " has its weights in pytorch_model.bin only, a pickle, which can run code when it is read; expected "
         "*.safetensors: most repositories have a version with them, else load it by transformers once and write it "
         "by save_pretrained(FOLDER)";
}

}  // namespace ashlar
