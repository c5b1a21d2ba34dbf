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

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& model) : folder_(model) {
  if (is_gguf(model)) {
    open_gguf();
    return;
  }
  const std::filesystem::path& folder = folder_;
  if (!is_folder(folder))
    fail_checkpoint(folder, "is not a folder; expected a Hugging Face model folder or a .gguf file");
  const auto index = folder / "model.safetensors.index.json";
  const auto single = folder / "model.safetensors";
  if (file_exists(single)) {
    files_.emplace_back(single);
    for (const auto& [name, tensor] : files_.back().tensors()) tensors_[name] = &tensor;
  } else if (file_exists(index)) {
    open_sharded(index);
  } else {
    open_unlisted();
  }
  quantised_ = read_quantised(folder, tensors_);
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

// As vLLM and others do; an index says no more than which tensors must be there, and a model knows that by itself.
void Checkpoint::open_unlisted() {
  std::map<int64_t, std::filesystem::path> shards;
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string file = entry.path().filename().string();
    const auto place = shard_place(file);
    if (!place) continue;
    if (count != 0 && place->of != count) {
      fail_checkpoint(folder_, "holds shards of " + std::to_string(count) + " and of " + std::to_string(place->of) +
                                   ", and no model.safetensors.index.json to say which are meant");
    }
    count = place->of;
    shards[place->number] = entry.path();
  }
  if (shards.empty()) {
    fail_checkpoint(
        folder_,
        "has no weights; expected model.safetensors, or shards named model-00001-of-00002.safetensors, with "
        "or without model.safetensors.index.json");
  }
  for (int64_t number = 1; number <= count; ++number) {
    if (shards.contains(number)) continue;
    fail_checkpoint(
        folder_, "lacks shard " + std::to_string(number) + " of " + std::to_string(count) + "; fetch the missing file");
  }
  files_.reserve(shards.size());
  for (const auto& [number, path] : shards) {
    files_.emplace_back(path);
    for (const auto& [name, tensor] : files_.back().tensors()) {
      const auto [there, is_new] = tensors_.emplace(name, &tensor);
      if (!is_new) {
        fail_checkpoint(path, "holds tensor " + for_message(name) + ", which " + there->second->file + " holds too");
      }
    }
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
