// SPDX-License-Identifier: Apache-2.0
#include "app/ordered_output.h"

#include <cstdio>

#include "app/figures.h"
#include "decode/check_sampling.h"
#include "session/output.h"

namespace ashlar {
namespace {

// A table of the answer's tokens: log-probability, spelling, the step that fixed it where there are steps,
// alternatives.
void print_logprobs(const Answer& answer, const Tokenizer& tokenizer) {
  for (size_t i = 0; i < answer.logprobs.size(); ++i) {
    const TokenLogprobs& logprobs = answer.logprobs[i];
    std::string line = dump_line(Json(tokenizer.piece_bytes(answer.tokens[i])));
    char value[32];
    std::snprintf(value, sizeof value, "%9.4f ", logprobs.token);
    line = value + line;
    if (!answer.unmask_pass.empty()) line += "   step " + std::to_string(answer.unmask_pass[i]);
    for (int32_t k = 0; k < logprobs.n_top; ++k) {
      std::snprintf(value, sizeof value, "%.4f", logprobs.top_values[k]);
      line += (k == 0 ? "   best: " : ", ") + dump_line(Json(tokenizer.piece_bytes(logprobs.top_ids[k]))) + " " + value;
    }
    write_output(line + "\n");
  }
}

// The beginning of a prompt on one line.
std::string headline(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (line.size() >= 60 && (static_cast<unsigned char>(c) & 0xC0) != 0x80)
      return line + "...";  // never within a character
    line += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  }
  return line;
}

}  // namespace

std::string tinted(std::string_view text, bool drafted, bool color) {
  if (!color || !drafted) return std::string(text);
  return "\033[36m" + std::string(text) + "\033[0m";
}

OrderedOutput::OrderedOutput(const Tokenizer& tokenizer, const std::vector<Prompt>& prompts, const OutputStyle& style)
    : tokenizer_(tokenizer), prompts_(prompts), style_(style), waiting_(prompts.size() * style.answers_per_prompt) {
  open(0);
}

void OrderedOutput::open(size_t index) {
  if (style_.json || waiting_.size() <= 1 || index >= waiting_.size()) return;
  const size_t prompt = index / style_.answers_per_prompt;
  std::string head =
      "[" + std::to_string(prompt + 1) + "/" + std::to_string(prompts_.size()) + "] " + headline(prompts_[prompt].text);
  if (style_.answers_per_prompt > 1) {
    head += " (answer " + std::to_string(index % style_.answers_per_prompt + 1) + ")";
  }
  write_output((index > 0 ? "\n" : "") + (style_.color ? "\033[1m" + head + "\033[0m\n" : head + "\n"));
  flush_output();
}

void OrderedOutput::on_text(size_t index, std::string_view text, bool drafted) {
  Waiting& answer = waiting_[index];
  answer.last = text;
  if (style_.json) return;
  const std::string styled = tinted(text, drafted, style_.color);
  if (index != current_) {
    answer.text += styled;
    return;
  }
  write_output(styled);
  flush_output();
  check_output();
}

void OrderedOutput::on_end(size_t index, const Answer& answer) {
  waiting_[index].ended = true;
  waiting_[index].answer = answer;
  ++ended_;
  if (style_.on_count) style_.on_count(ended_);
  while (current_ < waiting_.size() && waiting_[current_].ended) {
    close(current_);
    waiting_[current_] = {};
    if (++current_ == waiting_.size()) break;
    open(current_);
    write_output(waiting_[current_].text);
  }
  flush_output();
  check_output();
}

void OrderedOutput::close(size_t index) {
  const Answer& answer = waiting_[index].answer;
  if (style_.json) {
    print_json(index, answer);
    return;
  }
  if (answer.finish == "error" && waiting_.size() > 1) write_output("(no answer: " + answer.error + ")\n");
  const std::string& last = waiting_[index].last;
  if (!last.empty() && last.back() != '\n') write_output("\n");
  print_logprobs(answer, tokenizer_);
}

void OrderedOutput::print_json(size_t index, const Answer& answer) const {
  const size_t prompt = index / style_.answers_per_prompt;
  Json line{{"prompt_index", prompt}, {"prompt", prompts_[prompt].text}};
  if (style_.answers_per_prompt > 1) line["answer_index"] = index % style_.answers_per_prompt;
  if (style_.seed) line["seed"] = choice_seed(*style_.seed, static_cast<int32_t>(index % style_.answers_per_prompt));
  line["text"] = answer.text;
  line["tokens"] = answer.tokens;
  line["finish"] = answer.finish;
  if (!answer.stop_string.empty()) line["stop_string"] = answer.stop_string;
  if (!answer.error.empty()) line["error"] = answer.error;
  if (!answer.logprobs.empty()) line["logprobs"] = logprobs_json(answer, tokenizer_);
  line["stats"] = stats_json(answer);
  write_output(dump_line(line) + "\n");
}

}  // namespace ashlar
