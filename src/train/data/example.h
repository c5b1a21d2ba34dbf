// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line of a data file: what it says, before the model's template and tokenizer see it.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace ashlar {

/// Most bytes of a line.
inline constexpr size_t kMaxExampleBytes = size_t{16} << 20;
/// Most messages of a conversation, each of which is rendered.
inline constexpr size_t kMaxExampleMessages = 1000;

struct TrainingExample {
  enum class Form : uint8_t { kConversation, kPair, kText, kIds };

  Form form = Form::kText;
  std::string where;                      ///< for messages: "chat.jsonl:3"
  Json messages;                          ///< kConversation: [{role, content}, ...]; kPair: the same of the pair
  Json template_kwargs = Json::object();  ///< more variables of the template, such as enable_thinking
  Json tools;                             ///< kConversation: schemas of functions, or null
  std::string text;                       ///< kText
  std::string prompt;                     ///< kPair
  std::string response;                   ///< kPair
  std::vector<int32_t> ids;               ///< kIds
  std::vector<uint8_t> supervised;        ///< kIds: 1 where the token is learnt, one for each id
};

/// Whether a prompt needs a response: to be learnt it does, to be answered it does not.
enum class Responses : uint8_t { kNeeded, kOptional };

/// The first that an object has of these: ids (with mask, 0 or 1 each; without it all are learnt), messages (with
/// tools and chat_template_kwargs), conversations (a list of {from, value}, as ShareGPT has it), prompt with response
/// (or with text, as `ashlar run --json` prints answers), text. Other fields are ignored. Throws Error("train", ...)
/// that begins with `where` and says what was found and what was expected. A pair without a response, where that is
/// allowed, has one message.
TrainingExample parse_example(std::string_view line, const std::string& where,
                              Responses responses = Responses::kNeeded);

/// The line of an answer whose prompt is not to be learnt, as an object to which more may be added: {"ids", "mask"}.
Json example_of(std::span<const int32_t> prompt, std::span<const int32_t> answer);

/// A file of examples, and how often an epoch has each of them: half of them where it is 0.5.
struct DataFile {
  std::filesystem::path path;
  double weight = 1;

  bool operator==(const DataFile&) const = default;
};

/// The files that are meant by "FILE" or "FILE:WEIGHT"; what exists by its whole name is meant by that. A folder stands
/// for those of it that end in .jsonl, in the order of their names, each with the weight. Throws Error("train", ...)
/// where it has none, or for a weight below 0.001 or above 1000.
std::vector<DataFile> data_files(const std::vector<std::string>& named);

/// All lines of a file that are not blank. Throws Error("train", ...) naming the file and the line, also where there is
/// no line at all.
void read_examples(const std::filesystem::path& path, const std::function<void(TrainingExample)>& take,
                   Responses responses = Responses::kNeeded);

}  // namespace ashlar
