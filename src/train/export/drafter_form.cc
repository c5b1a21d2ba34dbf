// SPDX-License-Identifier: Apache-2.0
#include "train/export/drafter_form.h"

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "io/mapped_file.h"
#include "model/binding/weight_binder.h"
#include "train/export/drafter_folder.h"
#include "train/export/speculators_config.h"

namespace ashlar {
namespace {

constexpr const char* kEmbedding = "embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

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
    matrices.push_back({kEmbedding, matrix(config.names.embedding)});
    matrices.push_back({kHead, config.tied_head ? matrices.front().part : matrix(config.names.head)});
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

void add_draft_vocabulary(std::span<const int32_t> draft_ids, const Model& target, DrafterExport& out) {
  const std::vector<int32_t> ids(draft_ids.begin(), draft_ids.end());
  const auto entries = static_cast<int64_t>(ids.size());
  const auto vocabulary = std::make_shared<const TargetVocabulary>(target);
  const int64_t hidden = target.config().stack.hidden;
  TensorToWrite& head = out.frozen.emplace_back();
  head.name = kHead;
  head.shape = {entries, hidden};
  head.type = TensorToWrite::Type::kBF16;
  head.fill = [vocabulary, ids, hidden](int64_t first, int64_t rows, float* to) {
    for (int64_t row = first; row < first + rows; ++row, to += hidden) {
      const int64_t id = ids[static_cast<size_t>(row)];
      decode_rows(vocabulary->matrices.back().part, id, id + 1, to);
    }
  };
  std::vector<int64_t> offsets, is_drafted(static_cast<size_t>(target.config().vocab), 0);
  for (const int32_t id : ids) {
    offsets.push_back(id - static_cast<int64_t>(offsets.size()));
    is_drafted[static_cast<size_t>(id)] = 1;
  }
  const auto add = [&](const char* name, TensorToWrite::Type type, std::vector<int64_t> values) {
    const std::vector<int64_t>& kept = out.integers.emplace_back(std::move(values));
    out.frozen.push_back({name, {static_cast<int64_t>(kept.size())}, {}, type, {}, kept});
  };
  add("d2t", TensorToWrite::Type::kI64, std::move(offsets));
  add("t2d", TensorToWrite::Type::kBool, std::move(is_drafted));
}

void check_vocabulary(const std::filesystem::path& folder, const Model& target, std::span<const int32_t> draft_ids) {
  std::error_code none;
  if (std::filesystem::equivalent(folder, target.config().folder, none)) return;
  const Checkpoint checkpoint(folder);
  std::unique_ptr<const TargetVocabulary> vocabulary;
  const int32_t hidden = target.config().stack.hidden;
  for (const char* name : {kEmbedding, kHead}) {
    const auto& tensors = checkpoint.tensors();
    const std::string spelling = tensors.contains(name) ? name : std::string("model.") + name;
    if (!tensors.contains(spelling)) continue;
    if (vocabulary == nullptr) vocabulary = std::make_unique<const TargetVocabulary>(target);
    WeightBinder binder(target.ops(), checkpoint);
    const bool is_part = name == kHead && !draft_ids.empty();
    const int32_t rows = is_part ? static_cast<int32_t>(draft_ids.size()) : target.config().vocab;
    const WeightPart theirs = binder.matrix(spelling, rows, hidden);
    const auto mine = std::ranges::find(vocabulary->matrices, name, &VocabularyMatrix::name);
    std::vector<float> a(static_cast<size_t>(hidden)), b(a.size());
    for (int32_t row = 0; row < rows; ++row) {
      const int32_t id = is_part ? draft_ids[static_cast<size_t>(row)] : row;
      decode_rows(mine->part, id, id + 1, a.data());
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
