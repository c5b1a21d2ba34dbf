#include "model/drafters/draft_vocabulary.h"

#include <cstring>

#include "base/error.h"

namespace ashlar {

std::string find_prefix(const WeightBinder& binder) { return binder.has("model.fc.weight") ? "model." : ""; }

std::vector<int32_t> bind_draft_vocabulary(WeightBinder& binder, int32_t draft_vocab, int32_t vocab) {
  std::vector<int32_t> ids;
  if (binder.has("t2d")) binder.raw("t2d", "BOOL", vocab);
  if (!binder.has("d2t")) {
    if (draft_vocab != vocab) binder.raw("d2t", "I64", draft_vocab);  // says what is missing
    return ids;
  }
  const StoredTensor& offsets = binder.raw("d2t", "I64", draft_vocab);
  for (int32_t i = 0; i < draft_vocab; ++i) {
    int64_t offset = 0;
    std::memcpy(&offset, offsets.data + sizeof(offset) * i, sizeof(offset));
    if (offset < -i || offset >= vocab - i) {
      throw Error("drafter", offsets.file + ": tensor d2t: entry " + std::to_string(i) + " is " +
                                 std::to_string(offset) + ", which leads outside the vocabulary of " +
                                 std::to_string(vocab));
    }
    ids.push_back(static_cast<int32_t>(i + offset));
  }
  return ids;
}

}  // namespace ashlar
