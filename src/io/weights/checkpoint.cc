// SPDX-License-Identifier: Apache-2.0
#include "io/weights/checkpoint.h"

#include <charconv>
#include <optional>
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

struct ShardPlace {
  int64_t number, of;
};

// Of model-00003-of-00012.safetensors: shard 3 of 12.
std::optional<ShardPlace> shard_place(const std::string& file) {
  constexpr std::string_view kBegin = "model-", kMiddle = "-of-", kEnd = ".safetensors";
  constexpr size_t kDigits = 5;
  if (file.size() != kBegin.size() + kMiddle.size() + kEnd.size() + 2 * kDigits || !file.starts_with(kBegin) ||
      !file.ends_with(kEnd) || file.compare(kBegin.size() + kDigits, kMiddle.size(), kMiddle) != 0) {
    return std::nullopt;
  }
  const auto number_at = [&file](size_t begin) {
    int64_t value = 0;
    const char* end = file.data() + begin + kDigits;
    return std::from_chars(file.data() + begin, end, value).ptr == end ? value : 0;
  };
  const ShardPlace place = {number_at(kBegin.size()), number_at(kBegin.size() + kDigits + kMiddle.size())};
  if (place.number < 1 || place.number > place.of) return std::nullopt;
  return place;
}

using TensorPlaces = std::map<std::string, std::string>;  // file by tensor

/// What model.safetensors.index.json says.
struct Index {
  std::filesystem::path path;
  TensorPlaces places;
  std::vector<std::filesystem::path> files;
};

Index read_index(const std::filesystem::path& path) {
  Index index;
  index.path = path;
  const Json root = read_json_file(path);
  const JsonFields fields(root, path.string(), "checkpoint");
  const Json& map = fields.raw("weight_map");
  if (!map.is_object()) fields.fail("weight_map", "an object from tensor names to shard files");
  std::set<std::string> shards;
  for (const auto& [name, shard] : map.items()) {
    if (!shard.is_string()) fail_checkpoint(path, "tensor " + for_message(name) + " has no shard file name");
    const auto file = shard.get<std::string>();
    if (!is_plain_name(file)) {
      fail_checkpoint(path, "tensor " + for_message(name) + " lies in \"" + for_message(file) +
                                "\"; a shard must be a file of the same folder");
    }
    index.places[name] = file;
    shards.insert(file);
  }
  for (const std::string& shard : shards) {
    index.files.push_back(path.parent_path() / shard);
    if (!file_exists(index.files.back())) {
      fail_checkpoint(path, "names the shard " + for_message(shard) + ", which is not in the folder");
    }
  }
  return index;
}

// As vLLM and others do; an index says no more than which tensors must be there, and a model knows that by itself.
std::vector<std::filesystem::path> unlisted_shards(const std::filesystem::path& folder) {
  std::map<int64_t, std::filesystem::path> shards;
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    const auto place = shard_place(file);
    if (!place) continue;
    if (count != 0 && place->of != count) {
      fail_checkpoint(folder, "holds shards of " + std::to_string(count) + " and of " + std::to_string(place->of) +
                                  ", and no model.safetensors.index.json to say which are meant");
    }
    count = place->of;
    shards[place->number] = entry.path();
  }
  if (shards.empty()) {
    fail_checkpoint(
        folder,
        "has no weights; expected model.safetensors, or shards named model-00001-of-00002.safetensors, with "
        "or without model.safetensors.index.json");
  }
  std::vector<std::filesystem::path> files;
  for (int64_t number = 1; number <= count; ++number) {
    if (!shards.contains(number)) {
      fail_checkpoint(folder, "lacks shard " + std::to_string(number) + " of " + std::to_string(count) +
                                  "; fetch the missing file");
    }
    files.push_back(shards[number]);
  }
  return files;
}

void check_place(const std::filesystem::path& path, const std::string& name, const TensorPlaces& places) {
  const auto listed = places.find(name);
  if (listed == places.end()) {
    fail_checkpoint(path, "holds tensor " + for_message(name) + ", which the index does not name");
  }
  if (path.filename() != listed->second) {
    fail_checkpoint(path,
                    "holds tensor " + for_message(name) + ", which the index places in " + for_message(listed->second));
  }
}

// Empty where the files are not those of an index.
std::optional<Index> index_of(const std::filesystem::path& folder) {
  if (!is_folder(folder)) {
    fail_checkpoint(folder, "is not a folder; expected a Hugging Face model folder or a .gguf file");
  }
  const auto path = folder / "model.safetensors.index.json";
  if (file_exists(folder / "model.safetensors") || !file_exists(path)) return std::nullopt;
  return read_index(path);
}

std::vector<std::filesystem::path> files_without_index(const std::filesystem::path& folder) {
  const auto single = folder / "model.safetensors";
  if (file_exists(single)) return {single};
  return unlisted_shards(folder);
}

}  // namespace

std::vector<std::filesystem::path> weight_files(const std::filesystem::path& model) {
  if (!is_gguf(model)) {
    if (const auto index = index_of(model)) return index->files;
    return files_without_index(model);
  }
  std::vector<std::filesystem::path> files;
  for (int64_t number = 1;; ++number) {
    const std::filesystem::path shard = gguf_shard(model, number);
    if (shard.empty() || !file_exists(shard)) break;
    files.push_back(shard);
  }
  return files.empty() ? std::vector{model} : files;
}

Checkpoint::Checkpoint(const std::filesystem::path& model) : folder_(model) {
  if (is_gguf(model)) {
    open_gguf();
    return;
  }
  if (const std::optional<Index> index = index_of(folder_)) {
    open_files(index->files, &index->places);
    for (const auto& [name, shard] : index->places) {
      if (tensors_.contains(name)) continue;
      fail_checkpoint(index->path,
                      "places tensor " + for_message(name) + " in " + for_message(shard) + ", which does not hold it");
    }
  } else {
    open_files(files_without_index(folder_));
  }
  quantised_ = read_quantised(folder_, tensors_);
}

const StoredTensor* Checkpoint::find(const std::string& name, const std::vector<int64_t>& shape,
                                     const std::string& dtype) const {
  if (maker_ != nullptr) return &maker_->make(name, shape, dtype);
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

void Checkpoint::check_whole() const {
  for (const SafetensorsFile& file : files_) file.check_whole();
  if (!gguf_) return;
  for (const GgufFile& file : gguf_->files()) file.check_whole();
}

void Checkpoint::open_gguf() {
  gguf_.emplace(folder_);
  for (const GgufFile& file : gguf_->files()) {
    for (const auto& [name, tensor] : file.tensors()) {
      const auto [there, is_new] = tensors_.emplace(name, &tensor);
      if (!is_new) {
        fail_checkpoint(file.path(),
                        "holds tensor " + for_message(name) + ", which " + there->second->file + " holds too");
      }
    }
  }
}

void Checkpoint::open_files(const std::vector<std::filesystem::path>& paths, const TensorPlaces* places) {
  files_.reserve(paths.size());
  for (const std::filesystem::path& path : paths) {
    files_.emplace_back(path);
    for (const auto& [name, tensor] : files_.back().tensors()) {
      if (places != nullptr) check_place(path, name, *places);
      const auto [there, is_new] = tensors_.emplace(name, &tensor);
      if (!is_new) {
        fail_checkpoint(path, "holds tensor " + for_message(name) + ", which " + there->second->file + " holds too");
      }
    }
  }
}

}  // namespace ashlar
