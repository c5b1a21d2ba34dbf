#include "model/drafters/drafter_config.h"

#include <algorithm>

#include "base/error.h"
#include "io/mapped_file.h"

namespace ashlar {

Json read_drafter_json(const std::filesystem::path& folder, const std::string& kind) {
  const auto path = folder / "config.json";
  if (!file_exists(path)) {
    throw Error("drafter", folder.string() + ": has no config.json; expected " + kind + " drafter folder");
  }
  Json root = read_json_file(path);
  const JsonFields fields(root, path.string(), "drafter");
  if (fields.has("quantization_config")) {
    fields.fail("quantization_config", "an unquantised drafter (bf16, f16 or f32)");
  }
  return root;
}

DrafterFit::DrafterFit(const std::filesystem::path& drafter, const ModelConfig& target)
    : drafter_(drafter), target_(target) {
  if (!target.diffusion) return;
  throw Error("drafter", drafter.string() + " drafts for models that predict the next token; " +
                             target.folder.string() + " fills masked blocks: it works without a drafter");
}

void DrafterFit::fail(const std::string& what, int64_t wants, int64_t has) const {
  throw Error("drafter", drafter_.string() + " was not made for " + target_.folder.string() + ": it expects " + what +
                             " " + std::to_string(wants) + ", the model has " + std::to_string(has));
}

void DrafterFit::expect(const std::string& what, int64_t wants, int64_t has) const {
  if (wants != has) fail(what, wants, has);
}

void DrafterFit::expect_states(std::span<const int32_t> aux_layers, int32_t hidden) const {
  const int32_t deepest = *std::ranges::max_element(aux_layers);
  if (deepest >= target_.stack.n_layers) fail("a target layer with index", deepest, target_.stack.n_layers);
  expect("a hidden size of", hidden, target_.stack.hidden);
}

}  // namespace ashlar
