#pragma once
// The text of one request: detokeniser and stop strings together.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/stop_strings.h"

namespace ashlar {

class OutputText {
 public:
  struct Delta {
    std::string text;                   // to be sent now
    bool stopped = false;               // a stop string was found, in this call or before
    std::optional<size_t> stop_string;  // which one, as an index into the strings given
    size_t consumed = 0;  // ids of this call up to and including the one that completed the stop string; else all
  };

  /// The tokenizer must outlive the object.
  OutputText(const Tokenizer& tokenizer, bool skip_special_tokens, const std::vector<std::string>& stop_strings);

  /// Takes the next tokens. After a stop nothing is taken: no text, consumed == 0. `keep`: special tokens among them
  /// are text, too.
  Delta push(std::span<const int32_t> ids, bool keep = false);
  /// The end of the tokens: the text held back. May itself complete a stop string (consumed is 0).
  Delta flush();

  bool stopped() const { return stops_.stopped(); }
  /// Ids taken in all calls together.
  size_t consumed() const { return consumed_; }

 private:
  Detokenizer detokenizer_;
  StopStrings stops_;
  size_t consumed_ = 0;
};

}  // namespace ashlar
