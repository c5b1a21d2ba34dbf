// SPDX-License-Identifier: Apache-2.0
#include "train/data/example.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/mapped_file.h"
#include "text/template/chat_messages.h"

namespace ashlar {
namespace {

constexpr const char* kForms = "ids, messages, conversations, prompt with response, or text";

[[noreturn]] void fail_example(const std::string& where, const std::string& what) {
  throw Error("train", where + ": " + what);
}

// Calls `read`, whose errors then begin with the place.
template <class Read>
auto at_place(const std::string& where, const std::string& more, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    const std::string what(error.message());
    fail_example(where, (what.starts_with(where + ": ") ? what.substr(where.size() + 2) : what) + more);
  }
}

struct Speaker {
  std::string_view from, role;
};
constexpr Speaker kSpeakers[] = {{"human", "user"},        {"user", "user"},
                                 {"gpt", "assistant"},     {"assistant", "assistant"},
                                 {"chatgpt", "assistant"}, {"model", "assistant"},
                                 {"system", "system"},     {"tool", "tool"},
                                 {"observation", "tool"},  {"function_response", "tool"}};

Json message_of(const std::string& role, std::string content) {
  return Json{{"role", role}, {"content", std::move(content)}};
}

Json conversation_messages(const Json& turns, const std::string& where) {
  if (!turns.is_array() || turns.empty()) fail_example(where, "conversations is no list of one turn at least");
  Json messages = Json::array();
  for (const Json& turn : turns) {
    const std::string place = "conversations[" + std::to_string(messages.size()) + "]";
    const auto part = [&](const char* key) -> const std::string& {
      if (!turn.is_object() || !turn.contains(key) || !turn[key].is_string()) {
        fail_example(where, place + " has no text \"" + key + "\"; expected {\"from\": ..., \"value\": ...}");
      }
      return turn[key].get_ref<const std::string&>();
    };
    const std::string& from = part("from");
    const auto* speaker =
        std::find_if(std::begin(kSpeakers), std::end(kSpeakers), [&](const Speaker& one) { return one.from == from; });
    if (speaker == std::end(kSpeakers)) {
      std::string names;
      for (const Speaker& one : kSpeakers) names += (names.empty() ? "" : ", ") + std::string(one.from);
      fail_example(where, place + ".from is \"" + for_message(from, 40) + "\"; expected one of " + names);
    }
    messages.push_back(message_of(std::string(speaker->role), part("value")));
  }
  return messages;
}

void read_ids(const JsonFields& fields, TrainingExample& example) {
  example.form = TrainingExample::Form::kIds;
  example.ids = fields.integers("ids", 0, INT32_MAX);
  if (example.ids.empty()) fail_example(example.where, "ids is empty; expected one token at least");
  example.supervised.assign(example.ids.size(), 1);
  if (!fields.has("mask")) return;
  const Json& mask = fields.raw("mask");
  if (!mask.is_array() || mask.size() != example.ids.size()) {
    fail_example(example.where, "mask has " + (mask.is_array() ? std::to_string(mask.size()) : std::string("no")) +
                                    " entries; expected one for each of " + std::to_string(example.ids.size()) +
                                    " ids");
  }
  for (size_t i = 0; i < mask.size(); ++i) {
    const bool one = mask[i] == Json(1) || mask[i] == Json(true);
    if (!one && mask[i] != Json(0) && mask[i] != Json(false)) {
      fail_example(example.where,
                   "mask[" + std::to_string(i) + "] is " + for_message(mask[i].dump(), 40) + "; expected 0 or 1");
    }
    example.supervised[i] = one ? 1 : 0;
  }
}

void read_conversation(const JsonFields& fields, TrainingExample& example) {
  example.form = TrainingExample::Form::kConversation;
  example.messages = fields.has("messages") ? text::plain_messages(fields.raw("messages"))
                                            : conversation_messages(fields.raw("conversations"), example.where);
  if (example.messages.size() > kMaxExampleMessages) {
    fail_example(example.where, "has " + std::to_string(example.messages.size()) + " messages; expected at most " +
                                    std::to_string(kMaxExampleMessages));
  }
  if (fields.has("chat_template_kwargs")) {
    example.template_kwargs = fields.raw("chat_template_kwargs");
    if (!example.template_kwargs.is_object()) fail_example(example.where, "chat_template_kwargs is no object");
  }
  if (!fields.has("tools")) return;
  example.tools = fields.raw("tools");
  if (!example.tools.is_array()) fail_example(example.where, "tools is no list; expected schemas of functions");
}

void read_pair(const JsonFields& fields, Responses responses, TrainingExample& example) {
  example.form = TrainingExample::Form::kPair;
  example.prompt = fields.string("prompt");
  const char* const answer = fields.has("response") ? "response" : "text";  // the latter of `ashlar run --json`
  example.messages = Json::array({message_of("user", example.prompt)});
  if (!fields.has(answer)) {
    if (responses == Responses::kOptional) return;
    fail_example(example.where, "has a prompt without response; expected both, or --regenerate to have it answered");
  }
  example.response = fields.string(answer);
  example.messages.push_back(message_of("assistant", example.response));
}

// What follows the last colon is a weight where it is a number, unless there is such a file.
DataFile weighted_file(const std::string& name) {
  const size_t colon = name.rfind(':');
  DataFile plain = {name, 1};
  if (colon == std::string::npos || colon == 0 || std::filesystem::exists(plain.path)) return plain;
  double weight = 0;
  const char* const begin = name.data() + colon + 1;
  const char* const end = name.data() + name.size();
  const auto [rest, failed] = std::from_chars(begin, end, weight);
  if (rest != end || begin == end || failed == std::errc::invalid_argument) return plain;
  if (failed == std::errc() && weight >= 0.001 && weight <= 1000) {
    return {name.substr(0, colon), weight};
  }
  fail_example(name, "has a weight of " + name.substr(colon + 1) + "; expected 0.001 to 1000");
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

}  // namespace

TrainingExample parse_example(std::string_view line, const std::string& where, Responses responses) {
  if (line.size() > kMaxExampleBytes) {
    fail_example(where, "is " + std::to_string(line.size()) + " bytes long; expected at most " +
                            std::to_string(kMaxExampleBytes >> 20) + " MiB a line");
  }
  const Json object = at_place(where, "; expected one JSON object a line", [&] { return parse_json(line, where); });
  return at_place(where, "", [&] {
    const JsonFields fields(object, where, "train");
    TrainingExample example;
    example.where = where;
    if (fields.has("ids")) {
      read_ids(fields, example);
    } else if (fields.has("messages") || fields.has("conversations")) {
      read_conversation(fields, example);
    } else if (fields.has("prompt") || fields.has("response")) {
      read_pair(fields, responses, example);
    } else if (fields.has("text")) {
      example.text = fields.string("text");
    } else {
      fail_example(where, std::string("holds nothing to learn; expected one of the fields ") + kForms);
    }
    return example;
  });
}

Json example_of(std::span<const int32_t> prompt, std::span<const int32_t> answer) {
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  ids.insert(ids.end(), answer.begin(), answer.end());
  std::vector<int> mask(ids.size(), 1);
  std::fill_n(mask.begin(), prompt.size(), 0);
  return {{"ids", std::move(ids)}, {"mask", std::move(mask)}};
}

std::vector<DataFile> data_files(const std::vector<std::string>& named) {
  std::vector<DataFile> out;
  for (const std::string& name : named) {
    const auto [path, weight] = weighted_file(name);
    if (!std::filesystem::is_directory(path)) {
      out.push_back({path, weight});
      continue;
    }
    const size_t before = out.size();
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".jsonl") out.push_back({entry.path(), weight});
    }
    if (out.size() == before) fail_example(path.string(), "has no file that ends in .jsonl");
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
              [](const DataFile& a, const DataFile& b) { return a.path < b.path; });
  }
  return out;
}

void read_examples(const std::filesystem::path& path, const std::function<void(TrainingExample)>& take,
                   Responses responses) {
  const std::string kind = path.extension().string();
  if (kind == ".gz" || kind == ".xz" || kind == ".zst" || kind == ".zip") {
    fail_example(path.string(), "is packed; unpack it first");
  }
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  bool any = false;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (is_blank(line)) continue;
    any = true;
    take(parse_example(line, path.string() + ":" + std::to_string(number), responses));
  }
  file.check_whole();
  if (!any) fail_example(path.string(), std::string("is empty; expected a JSON object a line with ") + kForms);
}

}  // namespace ashlar
