// SPDX-License-Identifier: Apache-2.0
#pragma once
// The chat template of a model: a conversation to the prompt text, as transformers' apply_chat_template.

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "io/json.h"
#include "text/output/call_form.h"
#include "text/template/template.h"

namespace ashlar {

class ChatTemplate {
 public:
  /// Of a folder reads chat_template.jinja, else chat_template of tokenizer_config.json (a string, or a list of {name,
  /// template}), with additional_chat_templates/*.jinja next to either, and the special tokens of tokenizer_config.json
  /// (bos_token, eos_token, ...), which become variables of the template; or the same of a GGUF file's metadata. Empty
  /// when the model has no template. Throws Error when one is there but cannot be used.
  static std::optional<ChatTemplate> from_model(const std::filesystem::path& model);

  /// A template by itself. `special_tokens` is an object of variables such as bos_token.
  static ChatTemplate from_source(std::string_view source, std::string_view name, Json special_tokens = Json::object());

  /// The prompt. `messages` is an array of {role, content, ...}; `tools` null or an array of JSON schemas; members of
  /// `extra_variables` override every other variable. With tools the template named tool_use is taken where there is
  /// one. What the template and its special tokens write is of Origin::kTemplate, what users and tools say kSaid, all
  /// else kData. Throws Error("template") when the template refuses the conversation or fails.
  SourcedText render(const Json& messages, const Json& tools, bool add_generation_prompt,
                     const Json& extra_variables = {}, const Clock& clock = {}) const;

  /// Whether a template knows of <think>...</think>: then its model may begin an answer with that by itself.
  bool thinks() const { return thinks_; }
  /// As the template that is taken with tools has it.
  CallForm call_form() const { return call_form_; }

 private:
  ChatTemplate() = default;
  void add_sources(const Json& chat_template, const std::string& file);
  void add_folder(const Json& chat_template, const std::filesystem::path& folder);
  void add(const std::string& name, std::string_view source, std::string_view where);
  const Template& select(bool with_tools) const;

  std::map<std::string, Template> templates_;
  bool thinks_ = false;
  CallForm call_form_ = CallForm::kHermes;
  Json special_tokens_ = Json::object();
};

}  // namespace ashlar
