// SPDX-License-Identifier: Apache-2.0
#include "server/api/parse/chat_fields.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "generate/chat_prompt.h"
#include "server/api/wire.h"

namespace ashlar::server {
namespace {

bool is_in(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

Json read_calls(const Json& calls, const std::string& path, Reading& reading) {
  Json result = Json::array();
  for (size_t i = 0; i < calls.size() && reading.ok(); ++i) {
    Fields call(calls[i], at_index(path, i), reading);
    call.choice("type", {"function"});
    const auto id = call.string("id", 256);
    const Json* function = call.object("function");
    if (function == nullptr) {
      call.expect("function", "an object");
      break;
    }
    Fields fields(*function, call.path("function"), reading);
    const auto name = fields.string("name", reading.limits.name_bytes);
    if (!name || name->empty()) fields.expect("name", "the function's name");
    const Json* arguments = fields.any("arguments");
    result.push_back(
        call_message(id.value_or(""), name.value_or(""),
                     call_arguments(arguments != nullptr ? *arguments : Json(), fields.path("arguments"), reading)));
  }
  return result;
}

/// What only an assistant's message has.
void read_assistant(Fields& fields, Reading& reading, Json& out) {
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const auto text = fields.string(name);
    if (text && !out.contains("reasoning_content")) out["reasoning_content"] = *text;
  }
  if (fields.has("function_call")) fields.fail("function_call", "is out of date; send tool_calls");
  if (const Json* calls = fields.array("tool_calls", reading.limits.tools)) {
    Json list = read_calls(*calls, fields.path("tool_calls"), reading);
    if (!list.empty()) out["tool_calls"] = std::move(list);
  }
}

Json read_message(const Json& message, const std::string& path, Reading& reading) {
  Fields fields(message, path, reading);
  auto role = fields.choice("role", {"system", "developer", "user", "assistant", "tool"});
  if (!role) {
    fields.expect("role", "one of \"system\", \"developer\", \"user\", \"assistant\", \"tool\"");
    return {};
  }
  Json out = {{"role", *role == "developer" ? "system" : *role}, {"content", ""}};
  const Json* content = fields.any("content");
  if (content != nullptr) {
    if (*role == "assistant") {
      out["content"] =
          content_text(*content, fields.path("content"), reading, {"text", "refusal"}, {"thinking", "reasoning"});
    } else {
      out["content"] = content_text(*content, fields.path("content"), reading, {"text"});
    }
  } else if (*role != "assistant") {
    fields.expect("content", "a string or an array of text parts");
  }
  if (const Json* images = fields.any("images"); images != nullptr && !images->empty()) {
    fields.fail("images", "this server takes text only; leave images out");
  }
  for (const char* name : {"name", "tool_name"}) {
    if (const auto value = fields.string(name, 256)) out["name"] = *value;
  }
  if (*role == "assistant") read_assistant(fields, reading, out);
  if (*role == "tool") {
    if (const auto id = fields.string("tool_call_id", 256)) out["tool_call_id"] = *id;
  }
  return out;
}

bool is_function_name(const std::string& name, const ApiLimits& limits) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-.:").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= static_cast<size_t>(limits.name_bytes) &&
         std::all_of(name.begin(), name.end(), fits);
}

/// {name, description, parameters, strict} of the three shapes, as OpenAI's function tool.
Json read_function(Fields& fields, Reading& reading, const char* schema_name) {
  const auto name = fields.string("name");
  if (!name || !is_function_name(*name, reading.limits)) {
    fields.expect("name", "a name of letters, digits, _ - . : and at most " +
                              std::to_string(reading.limits.name_bytes) + " bytes");
    return {};
  }
  Json function = {{"name", *name}};
  if (const auto text = fields.string("description")) function["description"] = *text;
  const Json* schema = fields.object(schema_name);
  if (schema != nullptr && schema->dump().size() > static_cast<size_t>(reading.limits.schema_bytes)) {
    fields.fail(schema_name, "has more than " + std::to_string(reading.limits.schema_bytes) + " bytes");
  }
  function["parameters"] = schema != nullptr ? *schema : Json{{"type", "object"}, {"properties", Json::object()}};
  if (const auto strict = fields.boolean("strict")) function["strict"] = *strict;
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json read_tool(const Json& value, const std::string& path, Reading& reading, ToolShape shape) {
  Fields fields(value, path, reading);
  if (shape == ToolShape::kMessages) {
    const auto type = fields.string("type");
    if (type && *type != "custom") return {};
    return read_function(fields, reading, "input_schema");
  }
  const auto type = fields.string("type");
  if (!type) {
    fields.expect("type", "\"function\"");
    return {};
  }
  if (*type != "function") {
    if (shape == ToolShape::kNested) fields.expect("type", "\"function\"");
    return {};
  }
  if (shape == ToolShape::kFlat) return read_function(fields, reading, "parameters");
  const Json* function = fields.object("function");
  if (function == nullptr) {
    fields.expect("function", "an object");
    return {};
  }
  Fields nested(*function, fields.path("function"), reading);
  return read_function(nested, reading, "parameters");
}

void set_named(const std::string& name, const std::string& path, Reading& reading, const Json& tools, Generation& out) {
  for (const Json& tool : tools) {
    if (tool["function"]["name"] == name) {
      out.tool_choice = ToolChoice::kNamed;
      out.tool_name = name;
      return;
    }
  }
  reading.fail(path, "names the function \"" + for_message(name) + "\", which is not among the tools");
}

void read_object_choice(Fields& choice, Reading& reading, const Json& tools, ToolShape shape, Generation& out) {
  const bool messages = shape == ToolShape::kMessages;
  const auto type =
      messages ? choice.choice("type", {"auto", "any", "tool", "none"}) : choice.choice("type", {"function"});
  if (!type) return choice.expect("type", messages ? "one of \"auto\", \"any\", \"tool\", \"none\"" : "\"function\"");
  if (messages && choice.boolean("disable_parallel_tool_use").value_or(false)) out.parallel_tool_calls = false;
  if (*type == "none") out.tool_choice = ToolChoice::kNone;
  if (*type == "any") out.tool_choice = ToolChoice::kRequired;
  if (*type != "tool" && *type != "function") return choice.finish();
  const Json* function = shape == ToolShape::kNested ? choice.object("function") : nullptr;
  static const Json kNothing = Json::object();
  Fields nested(function != nullptr ? *function : kNothing, choice.path("function"), reading);
  Fields& holder = shape == ToolShape::kNested ? nested : choice;
  const auto name = holder.string("name");
  if (!name) return holder.expect("name", "the function's name");
  set_named(*name, holder.path("name"), reading, tools, out);
  choice.finish();
}

}  // namespace

std::string content_text(const Json& content, const std::string& path, Reading& reading,
                         std::initializer_list<std::string_view> types,
                         std::initializer_list<std::string_view> dropped) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    reading.fail(path, "expected a string or an array of text parts, found " + found(content));
    return {};
  }
  if (content.size() > static_cast<size_t>(reading.limits.parts)) {
    reading.fail(path, "has " + std::to_string(content.size()) + " parts; at most " +
                           std::to_string(reading.limits.parts) + " are allowed");
  }
  std::string text;
  for (size_t i = 0; i < content.size() && reading.ok(); ++i) {
    Fields part(content[i], at_index(path, i), reading);
    const auto type = part.string("type");
    if (type && is_in(*type, dropped)) continue;
    if (!type || !is_in(*type, types)) {
      part.expect("type", "\"" + std::string(*types.begin()) + "\": this server takes text only");
      break;
    }
    const char* key = *type == "refusal" ? "refusal" : "text";
    const auto piece = part.string(key);
    if (!piece) part.expect(key, "a string");
    text += piece.value_or("");
  }
  return text;
}

Json call_arguments(const Json& arguments, const std::string& path, Reading& reading) {
  if (arguments.is_object()) return arguments;
  if (arguments.is_null()) return Json::object();
  // Answers hand on what the model wrote, so it is taken back too: a call that was cut off must not end the session.
  if (arguments.is_string()) return arguments_object(arguments.get_ref<const std::string&>());
  reading.fail(path, "expected a JSON object, or the text of one, found " + found(arguments));
  return {};
}

Json call_message(const std::string& id, const std::string& name, Json arguments) {
  Json call = Json::object();
  if (!id.empty()) call["id"] = id;
  call["type"] = "function";
  call["function"] = {{"name", name}, {"arguments", std::move(arguments)}};
  return call;
}

Json read_chat_messages(const Json& messages, const std::string& path, Reading& reading) {
  Json result = Json::array();
  if (messages.empty()) reading.fail(path, "expected at least one message");
  for (size_t i = 0; i < messages.size() && reading.ok(); ++i) {
    result.push_back(read_message(messages[i], at_index(path, i), reading));
  }
  return result;
}

Json read_tools(Fields& fields, Reading& reading, ToolShape shape) {
  const Json* tools = fields.array("tools", reading.limits.tools);
  Json result = Json::array();
  for (size_t i = 0; tools != nullptr && i < tools->size() && reading.ok(); ++i) {
    Json tool = read_tool((*tools)[i], at_index(fields.path("tools"), i), reading, shape);
    if (tool.is_null()) continue;
    for (const Json& other : result) {
      if (other["function"]["name"] == tool["function"]["name"]) {
        reading.fail(at_index(fields.path("tools"), i), "repeats the name of an earlier tool");
      }
    }
    result.push_back(std::move(tool));
  }
  return result.empty() ? Json() : result;
}

void read_tool_choice(Fields& fields, Reading& reading, const Json& tools, ToolShape shape, Generation& out) {
  out.tool_choice = tools.is_null() ? ToolChoice::kNone : ToolChoice::kAuto;
  out.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* choice = fields.any("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_object()) {
    Fields object(*choice, fields.path("tool_choice"), reading);
    read_object_choice(object, reading, tools, shape, out);
  } else if (shape != ToolShape::kMessages && choice->is_string() &&
             is_in(choice->get<std::string>(), {"none", "auto", "required"})) {
    if (*choice == "none") out.tool_choice = ToolChoice::kNone;
    if (*choice == "required") out.tool_choice = ToolChoice::kRequired;
  } else {
    fields.expect("tool_choice",
                  shape == ToolShape::kMessages ? "an object" : "\"none\", \"auto\", \"required\" or one function");
  }
  if (out.tool_choice == ToolChoice::kRequired && tools.is_null())
    fields.fail("tool_choice", "asks for a call, but there are no tools");
}

}  // namespace ashlar::server
