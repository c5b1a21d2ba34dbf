// SPDX-License-Identifier: Apache-2.0
#include "text/output/output_text.h"

namespace ashlar {

OutputText::OutputText(const Tokenizer& tokenizer, bool skip_special_tokens,
                       const std::vector<std::string>& stop_strings)
    : tokenizer_(&tokenizer),
      skips_special_(skip_special_tokens),
      detokenizer_(tokenizer, skip_special_tokens),
      stops_(stop_strings),
      joined_(stops_) {}

OutputText::Delta OutputText::push(std::span<const int32_t> ids, bool keep) {
  Delta delta;
  while (!stopped() && delta.consumed < ids.size()) {
    const int32_t id = ids[delta.consumed];
    delta.text += match(detokenizer_.push(id, keep));
    if (skips_special_ && !keep && !stopped() && tokenizer_->is_special(id)) {
      delta.text += match(tokenizer_->token_content(id), /*hidden=*/true);
    }
    ++delta.consumed;
  }
  consumed_ += delta.consumed;
  describe(delta);
  return delta;
}

OutputText::Delta OutputText::flush() {
  Delta delta;
  if (!stopped()) delta.text = match(detokenizer_.flush());
  if (!stopped()) delta.text += gap_ ? joined_.feed(stops_.flush()) : stops_.flush();
  describe(delta);
  if (!delta.stopped && gap_) delta.text += joined_.flush();
  return delta;
}

// Until a special token is left out, both kinds of text are the same. What stops_ held back then is the only text
// before it that may begin a stop string, so joined_ need not have seen what came earlier.
std::string OutputText::match(std::string_view text, bool hidden) {
  gap_ = gap_ || hidden;
  std::string out = stops_.feed(text, hidden);
  if (!gap_) return out;
  out = joined_.feed(out);
  if (stops_.stopped() && !joined_.stopped()) out += joined_.flush();
  return out;
}

// What joined_ has found lies before what stops_ has found.
void OutputText::describe(Delta& delta) const {
  delta.stopped = stopped();
  delta.stop_string = joined_.stopped() ? joined_.hit() : stops_.hit();
}

}  // namespace ashlar
