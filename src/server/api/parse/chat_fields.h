// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations and tools, brought into the one shape that chat templates take.

#include "server/api/parse/fields.h"

namespace ashlar::server {

/// The text of a content: a string, or an array of parts whose type is one of `types`, joined. Parts of other types are
/// refused, except that those in `dropped` are passed over.
std::string content_text(const Json& content, const std::string& path, Reading& reading,
                         std::initializer_list<std::string_view> types,
                         std::initializer_list<std::string_view> dropped = {});

/// Arguments of a call as an object; text is parsed, and becomes {"raw_arguments": text} if it is no object.
Json call_arguments(const Json& arguments, const std::string& path, Reading& reading);
/// {"id", "type": "function", "function": {"name", "arguments"}}
Json call_message(const std::string& id, const std::string& name, Json arguments);

/// The messages of a chat completion.
Json read_chat_messages(const Json& messages, const std::string& path, Reading& reading);

enum class ToolShape : uint8_t { kNested, kFlat, kMessages };  ///< of chat, responses, messages
/// The field tools as OpenAI's function tools, or null. Tools of other types are refused by chat and dropped by the
/// other shapes.
Json read_tools(Fields& fields, Reading& reading, ToolShape shape);

/// tool_choice and parallel_tool_calls of chat and responses; of messages. `tools` as read_tools returned them.
void read_tool_choice(Fields& fields, Reading& reading, const Json& tools, ToolShape shape, Generation& out);

}  // namespace ashlar::server
