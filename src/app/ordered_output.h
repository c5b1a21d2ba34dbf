// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers on standard output in the order of their prompts, while the engine works on many at once: the first
// unfinished answer streams, later ones wait.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/prompts.h"
#include "session/answers.h"

namespace ashlar {

struct OutputStyle {
  bool json = false;   ///< one object a line, when the answer is complete
  bool color = false;  ///< tint drafted tokens
  int32_t answers_per_prompt = 1;
  std::optional<uint64_t> seed;                 ///< of the first answer to each prompt; in the objects
  std::function<void(int64_t ended)> on_count;  ///< called with how many answers have ended, each time one does
};

class OrderedOutput final : public AnswerListener {
 public:
  /// `prompts` and `tokenizer` must outlive it. Answer i belongs to prompt i / answers_per_prompt.
  OrderedOutput(const Tokenizer& tokenizer, const std::vector<Prompt>& prompts, const OutputStyle& style);

  void on_text(size_t index, std::string_view text, bool drafted) override;
  void on_end(size_t index, const Answer& answer) override;

 private:
  void open(size_t index);
  void close(size_t index);
  void print_json(size_t index, const Answer& answer) const;

  const Tokenizer& tokenizer_;
  const std::vector<Prompt>& prompts_;
  OutputStyle style_;
  struct Waiting {
    std::string text;  // styled
    std::string last;  // the newest characters, to know how the text ends
    bool ended = false;
    Answer answer;
  };
  std::vector<Waiting> waiting_;
  size_t current_ = 0;
  int64_t ended_ = 0;
};

/// Text as it goes to a terminal: in colour if it was drafted.
std::string tinted(std::string_view text, bool drafted, bool color);

}  // namespace ashlar
