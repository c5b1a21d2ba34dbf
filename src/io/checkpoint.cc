#include "io/checkpoint.h"

#include <set>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

[[noreturn]] void fail_checkpoint(const std::filesystem::path& path, const std::string& what) {
  throw Error("checkpoint", path.string() + ": " + what);
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool is_plain_name(const std::string& file) {
  return !file.empty() && file != "." && file != ".." &&
         file.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder) : folder_(folder) {
  if (!is_folder(folder)) fail_checkpoint(folder, "is not a folder; expected a Hugging Face model folder");
  const auto index = folder / "model.safetensors.index.json";
  const auto single = folder / "model.safetensors";
  if (file_exists(index)) {
    open_sharded(index);
  } else if (file_exists(single)) {
    files_.emplace_back(single);
    for (const auto& [name, tensor] : files_.back().tensors()) tensors_[name] = &tensor;
  } else {
    fail_checkpoint(folder,
                    "has no weights; expected model.safetensors or model.safetensors.index.json with its shards");
  }
}

void Checkpoint::open_sharded(const std::filesystem::path& index) {
  const Json root = read_json_file(index);
  const JsonFields fields(root, index.string(), "checkpoint");
  const Json& map = fields.raw("weight_map");
  if (!map.is_object()) fields.fail("weight_map", "an object from tensor names to shard files");
  std::map<std::string, std::string> shard_of;
  std::set<std::string> shards;
  for (const auto& [name, shard] : map.items()) {
    if (!shard.is_string()) fail_checkpoint(index, "tensor " + for_message(name) + " has no shard file name");
    const auto file = shard.get<std::string>();
    if (!is_plain_name(file)) {
      fail_checkpoint(index, "tensor " + for_message(name) + " lies in \"" + for_message(file) +
                                 "\"; a shard must be a file of the same folder");
    }
    shard_of[name] = file;
    shards.insert(file);
  }
  files_.reserve(shards.size());
  for (const std::string& shard : shards) {
    const auto path = folder_ / shard;
    if (!file_exists(path))
      fail_checkpoint(index, "names the shard " + for_message(shard) + ", which is not in the folder");
    files_.emplace_back(path);
    for (const auto& [name, tensor] : files_.back().tensors()) {
      const auto listed = shard_of.find(name);
      if (listed == shard_of.end())
        fail_checkpoint(path, "holds tensor " + for_message(name) + ", which the index does not name");
      if (listed->second != shard) {
        fail_checkpoint(
            path, "holds tensor " + for_message(name) + ", which the index places in " + for_message(listed->second));
      }
      tensors_[name] = &tensor;
    }
  }
  for (const auto& [name, shard] : shard_of) {
    if (!tensors_.contains(name)) {
      fail_checkpoint(index,
                      "places tensor " + for_message(name) + " in " + for_message(shard) + ", which does not hold it");
    }
  }
}

}  // namespace ashlar
