// SPDX-License-Identifier: Apache-2.0
#include "train/data/answer_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "train/data/example.h"

namespace ashlar {
namespace {

// Only what decides the answer: temperatures are written as they were read, so that equality is meant.
bool answers(const Json& line, const AnswerWish& wish) {
  const auto is = [&line](const char* key, const Json& value) { return line.value(key, Json()) == value; };
  return is("temperature", wish.temperature) && is("seed", wish.seed) && is("max_tokens", wish.max_tokens);
}

// The prompt is what is not learnt.
bool has_prompt(const TrainingExample& example, const std::vector<int32_t>& prompt) {
  const auto asked = std::count(example.supervised.begin(), example.supervised.end(), uint8_t{0});
  return static_cast<size_t>(asked) == prompt.size() && example.ids.size() >= prompt.size() &&
         std::equal(prompt.begin(), prompt.end(), example.ids.begin());
}

}  // namespace

AnswerFile::AnswerFile(std::filesystem::path path, std::span<const AnswerWish> wishes)
    : path_(std::move(path)), wishes_(wishes) {
  uintmax_t bytes = 0;
  if (file_exists(path_)) {
    done_ = kept_lines(bytes);
    if (bytes < std::filesystem::file_size(path_)) std::filesystem::resize_file(path_, bytes);
  }
  errno = 0;
  file_.open(path_, std::ios::app | std::ios::binary);
  if (!file_) throw Error("file", path_.string() + ": cannot be written: " + std::strerror(errno));
}

size_t AnswerFile::kept_lines(uintmax_t& bytes) const {
  const MappedFile file(path_);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  size_t n = 0;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string where = path_.string() + ":" + std::to_string(n + 1);
    const auto refuse = [&where](const std::string& what) {
      throw Error("train", where + ": " + what + "; remove the file to have all prompts answered anew");
    };
    if (n == wishes_.size()) refuse("is an answer too many: there are " + std::to_string(n) + " prompts");
    const std::string_view line = text.substr(0, end);
    const TrainingExample example = parse_example(line, where);
    if (!has_prompt(example, wishes_[n].prompt)) refuse("answers another prompt than the data have there");
    const Json fields = parse_json(line, where);
    if (fields.value("model", Json()) != wishes_[n].model) refuse("was written by another model");
    if (!answers(fields, wishes_[n])) {
      refuse("was made with another temperature, seed or limit than this command has");
    }
    text.remove_prefix(end + 1);
    bytes += end + 1;
    ++n;
  }
  file.check_whole();
  return n;
}

void AnswerFile::add(size_t wish, std::span<const int32_t> tokens, std::string_view finish, std::string_view text) {
  const AnswerWish& asked = wishes_[wish];
  Json line = example_of(asked.prompt, tokens);
  line.update({{"temperature", asked.temperature},
               {"seed", asked.seed},
               {"max_tokens", asked.max_tokens},
               {"finish", finish},
               {"text", text},
               {"model", asked.model}});
  // What is cut in the midst of a character is no UTF-8.
  waiting_[wish] = line.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (waiting_.begin()->first != done_) return;
  errno = 0;
  for (auto next = waiting_.begin(); next != waiting_.end() && next->first == done_; next = waiting_.erase(next)) {
    file_ << next->second << "\n";
    ++done_;
  }
  file_.flush();
  if (!file_) throw Error("file", path_.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace ashlar
