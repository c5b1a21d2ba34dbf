// SPDX-License-Identifier: Apache-2.0
#include "measure/prompt_file.h"

#include <fstream>
#include <functional>
#include <iostream>

#include "base/error.h"
#include "io/mapped_file.h"
#include "text/template/chat_messages.h"

namespace ashlar {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr const char* kFields = "prompt_ids, messages, prompt, turns or question";

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error("prompts", where + ": " + what);
}

Json as_conversation(std::string text) { return Json::array({Json{{"role", "user"}, {"content", std::move(text)}}}); }

std::string text_of(const Json& value, const std::string& where, const std::string& field) {
  if (!value.is_string()) fail(where, field + " is " + value.type_name() + "; expected a string");
  if (value.get_ref<const std::string&>().empty()) fail(where, field + " is empty");
  return value.get<std::string>();
}

Json checked_messages(const Json& value, const std::string& where) {
  try {
    return text::plain_messages(value);
  } catch (const Error& error) {
    fail(where, std::string(error.message()));
  }
}

std::vector<int32_t> checked_ids(const JsonFields& fields, const std::string& where) {
  std::vector<int32_t> ids = fields.integers("prompt_ids", 0, INT32_MAX);
  if (ids.empty()) fail(where, "prompt_ids is empty");
  return ids;
}

// Where one value goes over several lines each of them is broken JSON.
Json parse_value(std::string_view line, const std::string& where) {
  try {
    return parse_json(line, where);
  } catch (const Error& error) {
    throw Error("prompts", std::string(error.message()) + "; expected one JSON object a line");
  }
}

EvalPrompt parse_line(std::string_view line, const std::string& where) {
  const Json object = parse_value(line, where);
  const JsonFields fields(object, where, "prompts");
  EvalPrompt prompt;
  prompt.name = where;
  prompt.category = fields.string("category", "");
  if (fields.has("prompt_ids")) {
    prompt.ids = checked_ids(fields, where);
  } else if (fields.has("messages")) {
    prompt.messages = checked_messages(fields.raw("messages"), where);
  } else if (fields.has("prompt")) {
    prompt.messages = as_conversation(text_of(fields.raw("prompt"), where, "prompt"));
  } else if (fields.has("turns")) {
    const Json& turns = fields.raw("turns");
    if (!turns.is_array() || turns.empty()) fail(where, "turns is no list of strings; expected at least one");
    prompt.messages = as_conversation(text_of(turns.front(), where, "the first of turns"));
  } else if (fields.has("question")) {
    prompt.messages = as_conversation(text_of(fields.raw("question"), where, "question"));
  } else {
    fail(where, std::string("has no prompt; expected one of the fields ") + kFields);
  }
  return prompt;
}

// Lines that are not blank, with their numbers, until one says that it was the last.
void each_line(std::string_view text, const std::function<bool(std::string_view, size_t)>& take) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos && !take(line, number)) return;
  }
}

}  // namespace

std::string read_prompt_text(const std::filesystem::path& path, size_t limit) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  const bool flows = path == "-" || std::filesystem::is_fifo(status) || std::filesystem::is_character_file(status);
  if (!flows) return read_text_file(path, limit);
  // What comes from a pipe has no size to ask for beforehand.
  std::ifstream pipe;
  if (path != "-") pipe.open(path, std::ios::binary);
  std::istream& stream = path == "-" ? std::cin : pipe;
  std::string text;
  char chunk[1 << 16];
  while (stream.read(chunk, sizeof chunk) || stream.gcount() > 0) {
    text.append(chunk, static_cast<size_t>(stream.gcount()));
    if (text.size() > limit) {
      fail(path == "-" ? "standard input" : path.string(), "is longer than " + std::to_string(limit >> 20) + " MiB");
    }
  }
  return text;
}

std::vector<EvalPrompt> parse_prompts(std::string_view text, const std::string& name, size_t limit) {
  std::vector<EvalPrompt> prompts;
  each_line(text, [&](std::string_view line, size_t number) {
    prompts.push_back(parse_line(line, name + ":" + std::to_string(number)));
    return limit == 0 || prompts.size() < limit;
  });
  if (prompts.empty()) fail(name, "holds no prompts; expected one JSON object a line");
  return prompts;
}

std::vector<EvalPrompt> parse_lines(std::string_view text, const std::string& name, size_t limit) {
  std::vector<EvalPrompt> prompts;
  each_line(text, [&](std::string_view line, size_t number) {
    EvalPrompt& prompt = prompts.emplace_back();
    prompt.name = name + ":" + std::to_string(number);
    prompt.messages = as_conversation(std::string(line.substr(0, line.find_last_not_of('\r') + 1)));
    return limit == 0 || prompts.size() < limit;
  });
  if (prompts.empty()) fail(name, "holds no prompts; expected one a line");
  return prompts;
}

std::vector<EvalPrompt> read_prompt_file(const std::filesystem::path& path, size_t limit) {
  const std::string name = path == "-" ? "standard input" : path.string();
  const std::string kind = path == "-" ? "" : path.extension().string();
  if (kind == ".gz" || kind == ".xz" || kind == ".zst" || kind == ".zip") fail(name, "is packed; unpack it first");
  const std::string text = read_prompt_text(path, kMaxFileBytes);
  const size_t begin = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const bool looks_like_json = begin != std::string::npos && text[begin] == '{';
  const bool json = kind == ".jsonl" || kind == ".ndjson" || kind == ".json" || (kind != ".txt" && looks_like_json);
  return json ? parse_prompts(text, name, limit) : parse_lines(text, name, limit);
}

}  // namespace ashlar
