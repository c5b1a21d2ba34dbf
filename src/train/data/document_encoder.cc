// SPDX-License-Identifier: Apache-2.0
#include "train/data/document_encoder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "generate/chat_prompt.h"
#include "text/tokenizer/model_tokens.h"

namespace ashlar {
namespace {

constexpr const char* kNoTemplate =
    "is a conversation, and the model has no chat template; expected prompt with response, or text";

size_t shared_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto parting = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return static_cast<size_t>(parting - a.begin());
}

// Where `whole` goes on after `part`: after the token that reaches over the border, if one does. Nothing where the
// template writes the beginning of the whole otherwise than `part`.
std::optional<size_t> border_after(const std::vector<int32_t>& part, const std::vector<int32_t>& whole) {
  const size_t shared = shared_prefix(part, whole);
  if (shared == part.size()) return shared;
  if (shared + 1 == part.size() && shared < whole.size()) return shared + 1;
  return std::nullopt;
}

bool is_assistant(const Json& message) {
  const auto role = message.find("role");
  return role != message.end() && role->is_string() && role->get_ref<const std::string&>() == "assistant";
}

}  // namespace

std::optional<size_t> prompt_length(std::span<const uint8_t> supervised) {
  size_t end = supervised.size();
  while (end > 0 && supervised[end - 1] == 0) --end;
  size_t begin = end;
  while (begin > 0 && supervised[begin - 1] != 0) --begin;
  if (begin == end) return std::nullopt;
  if (begin == 0) begin = supervised.size() / 4;
  if (begin == 0) return std::nullopt;
  return begin;
}

DocumentEncoder::DocumentEncoder(const Tokenizer& tokenizer, const ChatTemplate* form, std::vector<int32_t> stop_ids,
                                 int32_t vocab)
    : tokenizer_(tokenizer), form_(form), stop_ids_(std::move(stop_ids)), vocab_(vocab) {}

bool DocumentEncoder::is_stop(int32_t id) const {
  return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end();
}

EncodedDocument DocumentEncoder::encode(const TrainingExample& example) const {
  EncodedDocument document;
  try {
    switch (example.form) {
      case TrainingExample::Form::kConversation:
        document = encode_messages(example);
        break;
      case TrainingExample::Form::kPair:
        document = form_ != nullptr ? encode_messages(example) : encode_pair(example);
        break;
      case TrainingExample::Form::kText:
        document.ids = tokenizer_.encode(example.text, {.add_special_tokens = true});
        document.supervised.assign(document.ids.size(), 1);
        break;
      case TrainingExample::Form::kIds:
        document.ids = example.ids;
        document.supervised = example.supervised;
        break;
    }
  } catch (const Error& error) {
    throw Error("train", example.where + ": " + std::string(error.message()));
  }
  check_ids(example, document.ids);
  return document;
}

void DocumentEncoder::check_ids(const TrainingExample& example, std::span<const int32_t> ids) const {
  for (const int32_t id : ids) {
    if (id < vocab_) continue;
    throw Error("train", example.where + ": has token id " + std::to_string(id) + "; the model has " +
                             std::to_string(vocab_) + " tokens");
  }
}

std::vector<int32_t> DocumentEncoder::encode_prompt(const TrainingExample& example) const {
  if (example.form == TrainingExample::Form::kPair && form_ == nullptr) {
    std::vector<int32_t> ids = tokenizer_.encode(example.prompt, {.add_special_tokens = true});
    check_ids(example, ids);
    return ids;
  }
  if (example.messages.is_null()) {
    EncodedDocument document = encode(example);
    document.ids.resize(prompt_length(document.supervised).value_or(0));
    return std::move(document.ids);
  }
  std::vector<int32_t> ids;
  try {
    if (form_ == nullptr) throw Error("train", kNoTemplate);
    const size_t turns = example.messages.size();
    const size_t asked = turns > 0 && is_assistant(example.messages[turns - 1]) ? turns - 1 : turns;
    if (asked > 0) ids = render(example, asked, true);
  } catch (const Error& error) {
    throw Error("train", example.where + ": " + std::string(error.message()));
  }
  check_ids(example, ids);
  return ids;
}

std::vector<int32_t> DocumentEncoder::render(const TrainingExample& example, size_t messages, bool opens_answer) const {
  Conversation conversation;
  for (size_t i = 0; i < messages; ++i) conversation.messages.push_back(example.messages[i]);
  conversation.tools = example.tools;
  conversation.template_kwargs = example.template_kwargs;
  conversation.add_generation_prompt = opens_answer;
  return encode_conversation(tokenizer_, *form_, conversation);
}

bool DocumentEncoder::mark_turn(const TrainingExample& example, size_t turn, EncodedDocument& document) const {
  const bool last = turn + 1 == example.messages.size();
  std::optional<size_t> begin, end;
  try {
    begin = border_after(render(example, turn, true), document.ids);
    end = last ? document.ids.size() : border_after(render(example, turn + 1, false), document.ids);
  } catch (const Error&) {  // a part of a conversation that the template refuses, such as one without a user
  }
  if (!begin || *begin >= document.ids.size()) return false;
  const auto first = document.ids.begin() + static_cast<std::ptrdiff_t>(*begin);
  const auto limit = end ? document.ids.begin() + static_cast<std::ptrdiff_t>(*end) : document.ids.end();
  if (first >= limit) return false;
  const auto stop = std::find_if(first, limit, [this](int32_t id) { return is_stop(id); });
  if (stop == limit && !end) return false;
  const auto after = stop == limit ? limit : stop + 1;
  std::fill(document.supervised.begin() + (first - document.ids.begin()),
            document.supervised.begin() + (after - document.ids.begin()), uint8_t{1});
  return true;
}

EncodedDocument DocumentEncoder::encode_messages(const TrainingExample& example) const {
  if (form_ == nullptr) throw Error("train", kNoTemplate);
  EncodedDocument document;
  document.ids = render(example, example.messages.size(), false);
  document.supervised.assign(document.ids.size(), 0);
  for (size_t turn = 0; turn < example.messages.size(); ++turn) {
    if (is_assistant(example.messages[turn]) && !mark_turn(example, turn, document)) ++document.lost_turns;
  }
  return document;
}

EncodedDocument DocumentEncoder::encode_pair(const TrainingExample& example) const {
  EncodedDocument document;
  document.ids = tokenizer_.encode(example.prompt, {.add_special_tokens = true});
  const size_t prompt = document.ids.size();
  const std::vector<int32_t> response = tokenizer_.encode(example.response);
  document.ids.insert(document.ids.end(), response.begin(), response.end());
  if (!stop_ids_.empty()) document.ids.push_back(stop_ids_.front());
  document.supervised.assign(document.ids.size(), 1);
  std::fill_n(document.supervised.begin(), prompt, uint8_t{0});
  return document;
}

}  // namespace ashlar
