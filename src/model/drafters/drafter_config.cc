// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/drafter_config.h"

#include <algorithm>

#include "base/error.h"
#include "io/mapped_file.h"
#include "model/drafters/gguf_drafter.h"
#include "model/gguf/gguf_keys.h"

namespace ashlar {
namespace {

constexpr int32_t kMaxId = 1000;
constexpr const char* kEmbeddingCounted = "ids that count the embedding as the first layer are one too high";

}  // namespace

DrafterWords read_drafter_words(const std::filesystem::path& folder, const std::string& kind,
                                Json (*of_gguf)(const std::filesystem::path& file)) {
  if (is_gguf(folder)) return {of_gguf(folder), folder.string() + " (metadata in the words of config.json)", true};
  const auto path = folder / "config.json";
  if (!file_exists(path)) {
    throw Error("drafter",
                folder.string() + ": has no config.json; expected " + kind + " drafter folder or a .gguf file");
  }
  Json root = read_json_file(path);
  const JsonFields fields(root, path.string(), "drafter");
  if (fields.has("quantization_config")) {
    fields.fail("quantization_config", "an unquantised drafter (bf16, f16 or f32)");
  }
  return {root, path.string()};
}

std::vector<int32_t> read_layer_ids(const JsonFields& fields, const std::string& key, int32_t first, int32_t layers) {
  const int32_t last = layers > 0 ? first + layers - 1 : kMaxId;
  const auto one_lower_fits = [&](const Json& id) { return id.is_number_integer() && id > first && id <= last + 1; };
  const auto is_beyond = [&](const Json& id) { return id == last + 1; };
  if (layers > 0 && fields.has(key) && std::ranges::all_of(fields.raw(key), one_lower_fits) &&
      std::ranges::any_of(fields.raw(key), is_beyond)) {
    fields.fail(key, "a list of integers from " + std::to_string(first) + " to " + std::to_string(last) + " (" +
                         kEmbeddingCounted + ")");
  }
  std::vector<int32_t> indices = fields.integers(key, first, last);
  for (int32_t& id : indices) id -= first;
  return indices;
}

void use_gguf_layers(const std::filesystem::path& file, const std::string& architecture, StackConfig& stack) {
  const Checkpoint checkpoint(file);
  const GgufKeys keys(checkpoint.gguf()->files().front(), architecture);
  stack.names = kGgufLayerNames;
  use_rope_factors(keys, checkpoint, names_of_gguf_drafter().rope_factors, stack);
}

DrafterFit::DrafterFit(const std::filesystem::path& drafter, const ModelConfig& target)
    : drafter_(drafter), target_(target) {
  if (!target.diffusion) return;
  throw Error("drafter", drafter.string() + " drafts for models that predict the next token; " +
                             target.folder.string() + " fills masked blocks: it works without a drafter");
}

void DrafterFit::fail(const std::string& what, int64_t wants, int64_t has, const std::string& hint) const {
  throw Error("drafter", drafter_.string() + " was not made for " + target_.folder.string() + ": it expects " + what +
                             " " + std::to_string(wants) + ", the model has " + std::to_string(has) + hint);
}

void DrafterFit::expect(const std::string& what, int64_t wants, int64_t has) const {
  if (wants != has) fail(what, wants, has);
}

void DrafterFit::expect_states(std::span<const int32_t> aux_layers, int32_t hidden) const {
  const auto [first, last] = std::ranges::minmax(aux_layers);
  const int32_t layers = target_.stack.n_layers;
  const bool one_lower_fits = first > 0 && last == layers;
  if (last >= layers) {
    fail("a target layer with index", last, layers,
         one_lower_fits ? std::string(" (layer ") + kEmbeddingCounted + ")" : "");
  }
  expect("a hidden size of", hidden, target_.stack.hidden);
}

}  // namespace ashlar
