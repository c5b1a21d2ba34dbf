// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text of one request: detokeniser and stop strings together.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/stop_strings.h"
#include "text/tokenizer/detokenizer.h"

namespace ashlar {

/// Stop strings are looked for in what the model wrote, special tokens spelled out, whether or not the text has them;
/// and in the text as it is returned, which never has one.
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

  bool stopped() const { return stops_.stopped() || joined_.stopped(); }
  /// Ids taken in all calls together.
  size_t consumed() const { return consumed_; }

 private:
  std::string match(std::string_view text, bool hidden = false);
  void describe(Delta& delta) const;

  const Tokenizer* tokenizer_;
  bool skips_special_;
  Detokenizer detokenizer_;
  StopStrings stops_;   // over what the model wrote
  StopStrings joined_;  // over what stops_ returns, where a special token was left out of it
  bool gap_ = false;    // one was
  size_t consumed_ = 0;
};

}  // namespace ashlar
