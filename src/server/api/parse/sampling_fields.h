// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields that several APIs share: sampling, stops, constraints, tools' choice, the template's variables.

#include "server/api/parse/fields.h"

namespace ashlar::server {

/// model, sampling, stops, n, stream, salt and what else has one name and one meaning everywhere. Fields that an
/// endpoint has not are absent, since Fields::check has refused them. What is asked about the prompt has been read
/// before: only then may the answer be empty.
void read_common(Fields& fields, Reading& reading, Generation& out);

/// The field dllm: an algorithm and its parameters. Which there are only the engine knows.
void read_choice(Fields& fields, Reading& reading, Generation& out);

/// The last word: what decode's own check says, of the field by the name under which it was sent.
void check_generation(Fields& fields, Reading& reading, const Generation& out);

/// response_format, structured_outputs, guided_*, and of generate json_schema, regex, ebnf; at most one of them.
void read_constraint(Fields& fields, Reading& reading, Generation& out);
/// A JSON schema for the answer, or the text of one.
void set_schema(const Json& schema, const std::string& path, Reading& reading, Constraint& out);
/// {type: text | json_object | json_schema, ...} of responses and messages, where the schema lies in the object itself.
void read_flat_format(const Json& format, const std::string& path, Reading& reading, Generation& out);

/// chat_template_kwargs into `prompt`.
void read_template_kwargs(Fields& fields, Reading& reading, ChatPrompt& prompt);
/// A reasoning effort, for templates that know one. What the client said in chat_template_kwargs stays.
void set_effort(const std::string& effort, ChatPrompt& prompt);
void set_thinking(bool on, ChatPrompt& prompt);
/// thinking: {type, budget_tokens}
void read_thinking(Fields& fields, Reading& reading, ChatPrompt& prompt);

}  // namespace ashlar::server
