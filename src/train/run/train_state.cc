// SPDX-License-Identifier: Apache-2.0
#include "train/run/train_state.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "device/weights/weight_source.h"
#include "io/weights/checkpoint.h"
#include "io/weights/hashed_file.h"
#include "io/weights/safetensors.h"

namespace ashlar {
namespace {

constexpr const char* kFormat = "ashlar-train-state";
constexpr const char* kFirst = "first_moment.";
constexpr const char* kSecond = "second_moment.";

[[noreturn]] void fail_state(const std::filesystem::path& path, const std::string& what) {
  throw Error("train", path.string() + ": " + what);
}

template <class Find>
const StoredTensor& stored(const std::filesystem::path& path, const Find& find, const std::string& name,
                           const std::vector<int64_t>& shape) {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) fail_state(path, "has no tensor " + name);
  if (tensor->shape != shape) {
    fail_state(path, name + " is " + tensor->describe() + "; expected " + describe_shape(shape));
  }
  return *tensor;
}

const StoredTensor* find_in(const SafetensorsFile& file, const std::string& name) {
  const auto found = file.tensors().find(name);
  return found == file.tensors().end() ? nullptr : &found->second;
}

TrainProgress progress_in(const SafetensorsFile& file, const std::filesystem::path& path) {
  const auto said = file.metadata().find(kFormat);
  if (said == file.metadata().end()) fail_state(path, "is no state of a training run");
  const Json root = parse_json(said->second, path.string());
  const JsonFields fields(root, path.string(), "train");
  TrainProgress progress;
  progress.step = fields.integer("step", 0, INT64_MAX);
  progress.skipped = fields.integer("skipped", 0, INT64_MAX);
  progress.settings = complete_settings(fields.raw("settings"), path);
  return progress;
}

void copy_exactly(const std::filesystem::path& path, const SafetensorsFile& file, const std::string& name,
                  const std::vector<int64_t>& shape, std::span<float> to) {
  const StoredTensor& from = stored(
      path, [&](const std::string& one) { return find_in(file, one); }, name, shape);
  if (from.dtype != "F32") fail_state(path, name + " is " + from.describe() + "; expected F32");
  std::memcpy(to.data(), from.data, to.size_bytes());
}

}  // namespace

void save_train_state(const std::filesystem::path& path, std::span<const TrainParameter> tensors,
                      const TrainProgress& progress) {
  std::vector<TensorToWrite> all;
  for (const TrainParameter& tensor : tensors) {
    all.push_back({tensor.name, tensor.shape, tensor.values});
    all.push_back({kFirst + tensor.name, tensor.shape, tensor.m});
    all.push_back({kSecond + tensor.name, tensor.shape, tensor.v});
  }
  const Json said = {{"step", progress.step}, {"skipped", progress.skipped}, {"settings", progress.settings}};
  write_hashed_safetensors(path, all, {{kFormat, said.dump()}});
}

Json complete_settings(Json saved, const std::filesystem::path& path) {
  if (!saved.is_object()) fail_state(path, "has settings of a training run that are no object");
  saved.emplace("compute", name_of(DType::kF32));
  saved.emplace("gpus", 1);
  saved.emplace("loss", "ce");
  saved.emplace("schedule", "cosine");
  saved.emplace("selector_weight", 1.0);
  return saved;
}

TrainProgress read_train_progress(const std::filesystem::path& path) {
  return progress_in(SafetensorsFile(path), path);
}

TrainProgress load_train_state(const std::filesystem::path& path, std::span<const TrainParameter> tensors) {
  const SafetensorsFile file(path);
  TrainProgress progress = progress_in(file, path);
  if (const std::string damage = damage_of(file); !damage.empty()) {
    fail_state(path, damage + "; put a copy in its place, or train on from the drafter next to it: --from " +
                         path.parent_path().string() + " and another -o");
  }
  for (const TrainParameter& tensor : tensors) {
    copy_exactly(path, file, tensor.name, tensor.shape, tensor.values);
    copy_exactly(path, file, kFirst + tensor.name, tensor.shape, tensor.m);
    copy_exactly(path, file, kSecond + tensor.name, tensor.shape, tensor.v);
  }
  file.check_whole();
  return progress;
}

void load_drafter_weights(const std::filesystem::path& folder, std::span<const TrainParameter> tensors) {
  const Checkpoint checkpoint(folder);
  const auto find = [&](const std::string& name) -> const StoredTensor* {
    for (const std::string& spelling : {name, "model." + name}) {
      const auto found = checkpoint.tensors().find(spelling);
      if (found != checkpoint.tensors().end()) return found->second;
    }
    return nullptr;
  };
  const bool has_head = std::ranges::any_of(
      tensors, [&](const TrainParameter& tensor) { return tensor.is_of_head && find(tensor.name) != nullptr; });
  for (const TrainParameter& tensor : tensors) {
    if (tensor.is_of_head && !has_head) continue;
    if (tensor.is_optional && find(tensor.name) == nullptr) {
      std::ranges::fill(tensor.values, 0.0F);
      continue;
    }
    const StoredTensor& from = stored(folder, find, tensor.name, tensor.shape);
    const std::optional<Scheme> scheme = find_scheme(from.dtype);
    if (!scheme) fail_state(folder, tensor.name + " is " + from.describe() + "; expected " + scheme_names());
    const int64_t rows = tensor.shape.size() > 1 ? tensor.shape[0] : 1;
    const int64_t cols = static_cast<int64_t>(tensor.values.size()) / rows;
    decode_rows(WeightPart(tensor.name, *scheme, from.data, rows, cols), 0, rows, tensor.values.data());
    if (!tensor.is_from_one) continue;
    for (float& value : tensor.values) value += 1;
  }
  checkpoint.check_whole();
}

std::vector<TensorToWrite> values_of(std::span<const TrainParameter> tensors) {
  std::vector<TensorToWrite> values;
  for (const TrainParameter& tensor : tensors) {
    TensorToWrite& out = values.emplace_back();
    out.name = tensor.name;
    out.shape = tensor.shape;
    if (!tensor.is_from_one) {
      out.values = tensor.values;
      continue;
    }
    out.fill = [from = tensor.values](int64_t first, int64_t rows, float* to) {
      const auto n = static_cast<int64_t>(from.size());
      for (int64_t i = first * n; i < (first + rows) * n; ++i) *to++ = from[static_cast<size_t>(i)] - 1;
    };
  }
  return values;
}

}  // namespace ashlar
