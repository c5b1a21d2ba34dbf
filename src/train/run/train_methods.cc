// SPDX-License-Identifier: Apache-2.0
#include "train/run/train_methods.h"

#include <algorithm>

#include "model/drafters/head_config.h"
#include "train/eagle3/eagle3_drafter.h"
#include "train/mtp/mtp_drafter.h"
#include "train/run/block_drafter.h"

namespace ashlar {
namespace {

TrainedDrafter fitted(DflashConfig config, const ModelConfig& target, const DrafterWishes& wishes) {
  if (!wishes.head.empty()) add_head(wishes.head, config);
  check_fit(config, target);
  check_trainable(config);
  return block_drafter(config);
}

TrainedDrafter design_block(const ModelConfig& target, const DrafterWishes& wishes,
                            const std::function<int32_t()>& mask_token) {
  return fitted(design_drafter(target, wishes, mask_token()), target, wishes);
}

TrainedDrafter read_block(const std::filesystem::path& folder, const ModelConfig& target, const DrafterWishes& wishes) {
  return fitted(with_target_vocabulary(read_dflash_config(folder), target), target, wishes);
}

TrainedDrafter design_head(const ModelConfig& target, const DrafterWishes& wishes,
                           const std::function<int32_t()>& /*mask_token*/) {
  return eagle3_drafter(design_eagle3(target, wishes));
}

TrainedDrafter read_head(const std::filesystem::path& folder, const ModelConfig& target,
                         const DrafterWishes& /*wishes*/) {
  Eagle3Config config = read_eagle3_config(folder);
  fit_to_target(config, target);
  check_trainable(config);
  return eagle3_drafter(config, read_draft_ids(config));
}

TrainedDrafter design_layer(const ModelConfig& target, const DrafterWishes& wishes,
                            const std::function<int32_t()>& /*mask_token*/) {
  return mtp_drafter(design_mtp(target, wishes), target);
}

TrainedDrafter read_layer(const std::filesystem::path& folder, const ModelConfig& target,
                          const DrafterWishes& /*wishes*/) {
  const MtpFolderConfig layer = read_mtp_config(folder);
  check_fit(layer, target);
  check_trainable(layer);
  return mtp_drafter(layer, target);
}

}  // namespace

std::span<const TrainMethod> train_methods() {
  static const TrainMethod methods[] = {
      {"dflash", "a DFlash drafter", "", {"--draft-vocabulary"}, is_dflash_folder, design_block, read_block},
      {"eagle3",
       "an EAGLE-3 head",
       "block-size = 8\nposition-weights = \"decay\"\n",
       {"--head", "--drafter-layers", "--sliding-window", "--mask-token", "--selector-weight", "--format"},
       is_eagle3_folder,
       design_head,
       read_head},
      {"mtp",
       "an MTP layer",
       "block-size = 4\nposition-weights = \"decay\"\n",
       {"--head", "--drafter-layers", "--aux-layers", "--sliding-window", "--draft-vocabulary", "--mask-token",
        "--selector-weight", "--format"},
       is_mtp_folder,
       design_layer,
       read_layer},
  };
  return methods;
}

const TrainMethod* find_train_method(const std::string& name) {
  const std::span<const TrainMethod> all = train_methods();
  const auto found = std::ranges::find_if(all, [&](const TrainMethod& one) { return name == one.name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace ashlar
