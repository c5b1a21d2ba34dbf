// SPDX-License-Identifier: Apache-2.0
#include "train/export/drafter_form.h"

#include <algorithm>
#include <memory>
#include <string>

#include "base/bf16.h"
#include "base/error.h"
#include "io/mapped_file.h"
#include "model/binding/weight_binder.h"
#include "train/export/drafter_folder.h"
#include "train/export/speculators_config.h"

namespace ashlar {
namespace {

// Matrices [vocab, hidden] of a checkpoint, which stays open as long as they are used.
struct VocabularyMatrix {
  std::string name;  // in the speculators form
  WeightPart part;
};

struct TargetVocabulary {
  explicit TargetVocabulary(const Model& target) : checkpoint(target.config().folder) {
    const ModelConfig& config = target.config();
    WeightBinder binder(target.ops(), checkpoint);
    const auto matrix = [&](const std::string& name) {
      return binder.matrix(name + ".weight", config.vocab, config.stack.hidden);
    };
    matrices.push_back({"embed_tokens.weight", matrix(config.names.embedding)});
    matrices.push_back({"lm_head.weight", config.tied_head ? matrices.front().part : matrix(config.names.head)});
  }

  Checkpoint checkpoint;
  std::vector<VocabularyMatrix> matrices;
};

DrafterExport zlab_export(const DflashConfig& drafter, const Model&) { return {zlab_config(drafter), {}}; }

DrafterExport speculators_export(const DflashConfig& drafter, const Model& target) {
  const auto vocabulary = std::make_shared<const TargetVocabulary>(target);
  DrafterExport out = {speculators_config(drafter, target.config()), {}};
  for (const VocabularyMatrix& matrix : vocabulary->matrices) {
    TensorToWrite& tensor = out.frozen.emplace_back();
    tensor.name = matrix.name;
    tensor.shape = {drafter.vocab, target.config().stack.hidden};
    tensor.type = TensorToWrite::Type::kBF16;
    tensor.fill = [vocabulary, &matrix](int64_t first, int64_t rows, float* to) {
      decode_rows(matrix.part, first, first + rows, to);
    };
  }
  return out;
}

bool is_same_or_rounded(float mine, float other) { return mine == other || to_float(to_bf16(mine)) == other; }

}  // namespace

DrafterExport export_as(DrafterForm form, const DflashConfig& drafter, const Model& target) {
  return (form == DrafterForm::kZlab ? zlab_export : speculators_export)(drafter, target);
}

DflashConfig with_target_vocabulary(DflashConfig drafter, const ModelConfig& target) {
  const bool alike = drafter.draft_vocab == target.vocab && drafter.vocab == target.vocab &&
                     drafter.stack.hidden == target.stack.hidden;
  if (!drafter.own_vocabulary || !alike) return drafter;
  drafter.own_vocabulary = false;
  drafter.target_layers = target.stack.n_layers;
  return drafter;
}

void check_vocabulary(const std::filesystem::path& folder, const Model& target) {
  const Checkpoint checkpoint(folder);
  std::unique_ptr<const TargetVocabulary> vocabulary;
  const int32_t hidden = target.config().stack.hidden;
  for (const char* name : {"embed_tokens.weight", "lm_head.weight"}) {
    const auto& tensors = checkpoint.tensors();
    const std::string spelling = tensors.contains(name) ? name : std::string("model.") + name;
    if (!tensors.contains(spelling)) continue;
    if (vocabulary == nullptr) vocabulary = std::make_unique<const TargetVocabulary>(target);
    WeightBinder binder(target.ops(), checkpoint);
    const WeightPart theirs = binder.matrix(spelling, target.config().vocab, hidden);
    const auto mine = std::ranges::find(vocabulary->matrices, name, &VocabularyMatrix::name);
    std::vector<float> a(static_cast<size_t>(hidden)), b(a.size());
    for (int32_t row = 0; row < target.config().vocab; ++row) {
      decode_rows(mine->part, row, row + 1, a.data());
      decode_rows(theirs, row, row + 1, b.data());
      if (std::equal(a.begin(), a.end(), b.begin(), is_same_or_rounded)) continue;
      throw Error("train", folder.string() + ": " + spelling + " is not the target's (row " + std::to_string(row) +
                               " differs), which is what is trained with; expected a drafter of " +
                               target.config().folder.string());
    }
  }
  checkpoint.check_whole();
}

}  // namespace ashlar
