// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/mtp_config.h"

#include "base/error.h"
#include "io/mapped_file.h"
#include "model/drafters/drafter_config.h"

namespace ashlar {
namespace {

constexpr const char* kMtpKey = "mtp_config";
constexpr int64_t kLongestMtpChain = 256;

Json refuse_gguf_mtp(const std::filesystem::path& file) {
  throw Error("drafter", file.string() + ": is a GGUF file; expected a folder whose config.json has mtp_config");
}

}  // namespace

bool is_mtp_folder(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  if (!file_exists(path)) return false;
  const Json root = read_json_file(path);
  return root.is_object() && root.contains(kMtpKey);
}

MtpFolderConfig read_mtp_config(const std::filesystem::path& folder) {
  const auto [root, where, from_gguf] = read_drafter_words(folder, "an MTP", refuse_gguf_mtp);
  const JsonFields fields(root, where, "drafter");
  const JsonFields own = fields.object(kMtpKey);
  MtpFolderConfig layer;
  layer.folder = folder;
  layer.stack = read_stack_config(fields);
  if (layer.stack.n_layers != 1) fields.fail("num_hidden_layers", "1");
  if (layer.stack.layers.front().window > 0) fields.fail("layer_types", "nothing, or full attention");
  layer.stack.qk_norm = true;
  layer.stack.output_gate = own.boolean("output_gate", false);
  layer.stack.norms_from_one = own.boolean("norms_from_one", false);
  layer.block_size = static_cast<int32_t>(own.integer("block_size", 2, kLongestMtpChain, layer.block_size));
  layer.vocab = static_cast<int32_t>(fields.integer("vocab_size", 1, 1 << 24));
  layer.max_positions = static_cast<int32_t>(fields.integer("max_position_embeddings", 1, 1 << 24, 2048));
  return layer;
}

void check_fit(const MtpFolderConfig& layer, const ModelConfig& target) {
  const DrafterFit fit(layer.folder, target);
  fit.expect("a hidden size of", layer.stack.hidden, target.stack.hidden);
  fit.expect("a vocabulary of", layer.vocab, target.vocab);
}

}  // namespace ashlar
