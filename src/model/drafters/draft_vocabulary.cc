// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/draft_vocabulary.h"

#include <cstring>

#include "base/error.h"

namespace ashlar {

namespace {

std::vector<int32_t> ids_of(const StoredTensor& stored, const DrafterNames& names, int32_t draft_vocab, int32_t vocab) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < draft_vocab; ++i) {
    int64_t value = 0;
    std::memcpy(&value, stored.data + sizeof(value) * static_cast<size_t>(i), sizeof(value));
    const int64_t first = names.target_ids ? 0 : i;  // the entry's id is this much more than its value
    if (value < -first || value >= vocab - first) {
      throw Error("drafter", stored.file + ": tensor d2t: entry " + std::to_string(i) + " is " + std::to_string(value) +
                                 ", which leads outside the vocabulary of " + std::to_string(vocab));
    }
    ids.push_back(static_cast<int32_t>(first + value));
  }
  return ids;
}

}  // namespace

std::string find_prefix(const WeightBinder& binder) { return binder.has("model.fc.weight") ? "model." : ""; }

std::vector<int32_t> bind_draft_vocabulary(WeightBinder& binder, const DrafterNames& names, int32_t draft_vocab,
                                           int32_t vocab) {
  if (binder.has("t2d")) binder.raw("t2d", "BOOL", vocab);
  if (!binder.has("d2t")) {
    if (draft_vocab != vocab) binder.raw("d2t", "I64", draft_vocab);  // says what is missing
    return {};
  }
  return ids_of(binder.raw("d2t", "I64", draft_vocab), names, draft_vocab, vocab);
}

std::vector<int32_t> read_draft_vocabulary(const Checkpoint& checkpoint, const DrafterNames& names, int32_t draft_vocab,
                                           int32_t vocab) {
  const auto found = checkpoint.tensors().find("d2t");
  if (found == checkpoint.tensors().end() || found->second->dtype != "I64" ||
      found->second->shape != std::vector<int64_t>{draft_vocab}) {
    throw Error("drafter", checkpoint.folder().string() + ": has no tensor d2t, I64 [" + std::to_string(draft_vocab) +
                               "], of the tokens that its head is for");
  }
  return ids_of(*found->second, names, draft_vocab, vocab);
}

}  // namespace ashlar
