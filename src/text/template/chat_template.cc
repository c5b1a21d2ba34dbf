// SPDX-License-Identifier: Apache-2.0
#include "text/template/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/weights/gguf.h"
#include "text/tokenizer/tokenizer_config.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTemplateBytes = 16u << 20;
constexpr size_t kMaxNames = 300;  // bytes of all templates' names in a message

/// The templates of tokenizer_config.json by name: name, source.
std::map<std::string, std::string> sources_of(const Json& chat_template, const std::string& where) {
  std::map<std::string, std::string> out;
  if (chat_template.is_null()) return out;
  if (chat_template.is_string()) {
    out["default"] = chat_template.get<std::string>();
    return out;
  }
  if (!chat_template.is_array())
    throw Error("template", where + ": chat_template must be a string or a list, found " + chat_template.type_name());
  for (const Json& entry : chat_template) {
    const bool usable = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                        entry.contains("template") && entry["template"].is_string();
    if (!usable) throw Error("template", where + ": each entry of chat_template needs the strings name and template");
    out[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
  return out;
}

/// Templates make tokens such as <|user|> of roles, so those that are in use count as the template's own words.
constexpr std::string_view kRoles[] = {"system", "developer", "user",        "assistant",
                                       "tool",   "function",  "observation", "ipython"};

/// The member `name` of an object, else null.
const Json* member(const Json& value, const char* name) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(name);
  return found == value.end() ? nullptr : &*found;
}

/// Tags are a caller's own to write in a system prompt or in what an assistant has said, where templates look for them.
Variable messages_variable(const Json& messages) {
  Variable out{"messages", &messages};
  if (!messages.is_array()) return out;
  for (const Json& message : messages) {
    const Json* role = member(message, "role");
    std::string_view name;
    if (role != nullptr && role->is_string()) name = role->get_ref<const std::string&>();
    out.parts[&message] =
        name == "system" || name == "developer" || name == "assistant" ? Origin::kData : Origin::kSaid;
    if (std::find(std::begin(kRoles), std::end(kRoles), name) != std::end(kRoles)) out.parts[role] = Origin::kTemplate;
    const Json* calls = member(message, "tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (const Json& call : *calls) {
      const Json* function = member(call, "function");
      if (const Json* arguments = member(function != nullptr ? *function : call, "arguments")) {
        out.json_texts.insert(arguments);
      }
    }
  }
  return out;
}

bool knows_thinking(std::string_view source) { return source.find("</think>") != std::string_view::npos; }

/// Bare calls are those of a template without tags that writes "parameters" right before a call's arguments.
CallForm call_form_of(std::string_view source) {
  const size_t key = std::min(source.rfind("\"parameters\":"), source.size());
  const bool bare = source.substr(key, 100).find("arguments") != std::string_view::npos &&
                    source.find("<tool_call>") == std::string_view::npos;
  return bare ? CallForm::kBare : CallForm::kHermes;
}

}  // namespace

void ChatTemplate::add(const std::string& name, std::string_view source, std::string_view where) {
  templates_.insert_or_assign(name, Template::parse(source, where));
  thinks_ = thinks_ || knows_thinking(source);
  if (name == "tool_use" || (name == "default" && !templates_.contains("tool_use"))) call_form_ = call_form_of(source);
}

std::optional<ChatTemplate> ChatTemplate::from_model(const fs::path& model) {
  const TokenizerConfig config = read_tokenizer_config(model);
  ChatTemplate out;
  out.special_tokens_ = config.special_tokens;
  if (is_gguf(model)) {
    out.add_sources(config.chat_template, model.string());
  } else {
    out.add_folder(config.chat_template, model);
  }
  if (out.templates_.empty()) return std::nullopt;
  return out;
}

void ChatTemplate::add_sources(const Json& chat_template, const std::string& file) {
  for (const auto& [name, source] : sources_of(chat_template, file)) add(name, source, file + "#" + for_message(name));
}

void ChatTemplate::add_folder(const Json& chat_template, const fs::path& folder) {
  const fs::path main_file = folder / "chat_template.jinja";
  if (fs::exists(main_file)) {
    add("default", read_text_file(main_file, kMaxTemplateBytes), main_file.string());
  } else {
    add_sources(chat_template, (folder / "tokenizer_config.json").string());
  }
  const fs::path more = folder / "additional_chat_templates";
  if (fs::is_directory(more))
    for (const auto& entry : fs::directory_iterator(more))
      if (entry.path().extension() == ".jinja")
        add(entry.path().stem().string(), read_text_file(entry.path(), kMaxTemplateBytes), entry.path().string());
}

ChatTemplate ChatTemplate::from_source(std::string_view source, std::string_view name, Json special_tokens) {
  ChatTemplate out;
  out.special_tokens_ = std::move(special_tokens);
  out.add("default", source, name);
  return out;
}

const Template& ChatTemplate::select(bool with_tools) const {
  for (const char* name : {"tool_use", "default"}) {
    const auto it = templates_.find(name);
    if (it != templates_.end() && (with_tools || it->first == "default")) return it->second;
  }
  std::string names;
  for (const auto& [name, unused] : templates_) names += (names.empty() ? "" : ", ") + name;
  throw Error("template",
              "the model has several chat templates and none is named default: " + for_message(names, kMaxNames));
}

SourcedText ChatTemplate::render(const Json& messages, const Json& tools, bool add_generation_prompt,
                                 const Json& extra_variables, const Clock& clock) const {
  const Json documents;
  const Json generation(add_generation_prompt);
  std::vector<Variable> variables;
  for (const auto& [name, value] : special_tokens_.items()) variables.push_back({name, &value, Origin::kTemplate});
  variables.push_back(messages_variable(messages));
  variables.push_back({"tools", &tools});
  variables.push_back({"documents", &documents});
  variables.push_back({"add_generation_prompt", &generation});
  if (extra_variables.is_object())
    for (const auto& [name, value] : extra_variables.items()) variables.push_back({name, &value});
  return select(!tools.is_null()).render(variables, {}, clock);
}

}  // namespace ashlar
