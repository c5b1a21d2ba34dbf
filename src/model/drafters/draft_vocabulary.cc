// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/draft_vocabulary.h"

#include <cstring>

#include "base/error.h"

namespace ashlar {

std::string find_prefix(const WeightBinder& binder) { return binder.has("model.fc.weight") ? "model." : ""; }

std::vector<int32_t> bind_draft_vocabulary(WeightBinder& binder, const DrafterNames& names, int32_t draft_vocab,
                                           int32_t vocab) {
  std::vector<int32_t> ids;
  if (binder.has("t2d")) binder.raw("t2d", "BOOL", vocab);
  if (!binder.has("d2t")) {
    if (draft_vocab != vocab) binder.raw("d2t", "I64", draft_vocab);  // says what is missing
    return ids;
  }
  const StoredTensor& stored = binder.raw("d2t", "I64", draft_vocab);
  for (int32_t i = 0; i < draft_vocab; ++i) {
    int64_t value = 0;
    std::memcpy(&value, stored.data + sizeof(value) * i, sizeof(value));
    const int64_t first = names.target_ids ? 0 : i;  // the entry's id is this much more than its value
    if (value < -first || value >= vocab - first) {
      throw Error("drafter", stored.file + ": tensor d2t: entry " + std::to_string(i) + " is " + std::to_string(value) +
                                 ", which leads outside the vocabulary of " + std::to_string(vocab));
    }
    ids.push_back(static_cast<int32_t>(first + value));
  }
  return ids;
}

}  // namespace ashlar
