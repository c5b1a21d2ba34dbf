#pragma once
// Fields that several APIs share: sampling, stops, constraints, tools' choice, the template's variables.

#include "server/api/fields.h"

namespace ashlar::server {

/// model, sampling, stops, n, stream, salt and what else has one name and one meaning everywhere. Fields that an
/// endpoint has not are absent, since Fields::check has refused them.
void read_common(Fields& fields, Reading& reading, Generation& out);
/// The fewest tokens that a request may ask for: none where it is about its prompt, which has been read then.
int64_t least_tokens(const Generation& out);

/// The field dllm: an algorithm and its parameters. Which there are only the engine knows.
void read_choice(Fields& fields, Reading& reading, Generation& out);

/// The last word: what decode's own check says.
void check_generation(const Fields& fields, Reading& reading, const Generation& out);

/// response_format, structured_outputs, guided_*, and of generate json_schema, regex, ebnf; at most one of them.
void read_constraint(Fields& fields, Reading& reading, Generation& out);
/// {type: text | json_object | json_schema, ...} of responses and messages, where the schema lies in the object itself.
void read_flat_format(const Json& format, const std::string& path, Reading& reading, Generation& out);

/// chat_template_kwargs into `prompt`.
void read_template_kwargs(Fields& fields, Reading& reading, ChatPrompt& prompt);
/// A reasoning effort, for templates that know one. What the client said in chat_template_kwargs stays.
void set_effort(const std::string& effort, ChatPrompt& prompt);
void set_thinking(bool on, ChatPrompt& prompt);

}  // namespace ashlar::server
