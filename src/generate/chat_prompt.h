// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations to prompts, for every front end: the same conversation gives the same tokens whichever it comes by.
// What the template writes may become special tokens; what users wrote stays text: the spelling of a special token
// inside a message, a tool or a variable of the template does not become that token, and in what users and tools say
// neither does that of a tag, such as <think>, that the vocabulary has a token for.

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"
#include "text/template/chat_template.h"
#include "text/template/origins.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {

/// A conversation to be answered, in OpenAI's form.
struct Conversation {
  Json messages = Json::array();          ///< [{"role": "user", "content": "..."}, ...]
  Json tools = nullptr;                   ///< null, or an array of function schemas
  Json template_kwargs = Json::object();  ///< further variables of the template
  bool add_generation_prompt = true;      ///< the template opens the answer
};

/// The prompt's text. Messages are put into the form that templates are written for: developers speak as the system,
/// content that is absent or null is empty and text parts are joined, reasoning is there under each name in use, and
/// arguments of calls are objects. Where the template refuses that, system messages after the beginning become the
/// user's. Throws Error("template") where the template refuses the conversation either way.
SourcedText render_conversation(const ChatTemplate& form, const Conversation& conversation);
/// The same as token ids.
std::vector<int32_t> encode_conversation(const Tokenizer& tokenizer, const ChatTemplate& form,
                                         const Conversation& conversation);

/// The arguments of a call out of what a model wrote: {"raw_arguments": text} where that is no JSON object.
Json arguments_object(const std::string& text);

}  // namespace ashlar
