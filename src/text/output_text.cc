#include "text/output_text.h"

namespace ashlar {

OutputText::OutputText(const Tokenizer& tokenizer, bool skip_special_tokens,
                       const std::vector<std::string>& stop_strings)
    : detokenizer_(tokenizer, skip_special_tokens), stops_(stop_strings) {}

OutputText::Delta OutputText::push(std::span<const int32_t> ids, bool keep) {
  Delta delta;
  while (!stops_.stopped() && delta.consumed < ids.size()) {
    delta.text += stops_.feed(detokenizer_.push(ids[delta.consumed], keep));
    ++delta.consumed;
  }
  consumed_ += delta.consumed;
  delta.stopped = stops_.stopped();
  delta.stop_string = stops_.hit();
  return delta;
}

OutputText::Delta OutputText::flush() {
  Delta delta;
  if (!stops_.stopped()) delta.text = stops_.feed(detokenizer_.flush());
  delta.stopped = stops_.stopped();
  delta.stop_string = stops_.hit();
  if (!delta.stopped) delta.text += stops_.flush();
  return delta;
}

}  // namespace ashlar
