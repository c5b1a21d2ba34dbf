// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/config_file.h"

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "app/command_line/command_line.h"
#include "app/command_line/validators.h"
#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

// A name of an option and whether it is there to switch something off.
std::string main_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name(true) : option.get_lnames().front();
}

bool is_switch(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// Flags that say something about the file or the help, and are no settings of a server.
bool is_for_command_line(const std::string& name) {
  return name == "config" || name == "help" || name == "print-config";
}

std::vector<std::string> setting_names(const CLI::App& command) {
  std::vector<std::string> names = flag_names(command);
  std::erase_if(names, [](const std::string& name) { return is_for_command_line(name.substr(2)); });
  return names;
}

// What a switch's name says: of --no-x, which CLI11 keeps as "x is false", whether it was given.
std::string switch_value(const CLI::Option& option, const std::string& result) {
  const bool negative = option.check_fname(main_name(option));
  return (result == "true") != negative ? "true" : "false";
}

// Whether an argument is there that belongs to no flag.
bool has_positional(const CLI::App& command, const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") return i + 1 < args.size();
    if (!args[i].starts_with("-") || args[i] == "-") return true;
    if (args[i].find('=') != std::string::npos) continue;
    const CLI::Option* option = command.get_option_no_throw(args[i]);
    if (option != nullptr && !is_switch(*option)) ++i;  // its value
  }
  return false;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

[[noreturn]] void fail(const std::string& path, const toml::node& node, const std::string& message) {
  throw Error("config", path + ":" + std::to_string(node.source().begin.line) + ": " + message);
}

std::string value_text(const std::string& path, const std::string& key, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* real = node.as_floating_point()) {
    char shortest[32];
    return {shortest, std::to_chars(shortest, shortest + sizeof shortest, real->get()).ptr};
  }
  fail(path, node, "\"" + key + "\" is neither text, a number, true or false, nor a list of these");
}

// Whether text stands where a number does, or a number where text does; sizes take both.
std::string wrong_type(CLI::Option& option, const toml::node& node, const std::string& text) {
  const ValueKind kind = kind_of(option);
  if (node.is_string() && kind == ValueKind::kNumber)
    return "is \"" + for_message(text) + "\", a text; expected a number";
  if (!node.is_string() && kind == ValueKind::kText) return "is " + for_message(text) + "; expected text in quotes";
  return {};
}

// The value as an argument, after the checks that the parser would make too, without knowing of the file.
std::string argument(const std::string& path, const std::string& key, CLI::Option& option, const toml::node& node) {
  const std::string text = value_text(path, key, node);
  if (is_switch(option) != node.is_boolean()) {
    fail(path, node,
         "\"" + key + "\" is " + for_message(text) + "; expected " +
             (is_switch(option) ? "true or false" : "a value, not true or false"));
  }
  std::string why = is_switch(option) ? "" : wrong_type(option, node, text);
  if (why.empty()) why = problem_with_value(option, text);
  if (!why.empty()) fail(path, node, "\"" + key + "\"" + (why.starts_with("is ") ? " " : ": ") + why);
  return "--" + key + "=" + text;
}

// As a file of settings would have it; empty if there is no value.
std::string toml_value(CLI::Option& option) {
  std::vector<std::string> values;
  if (is_switch(option)) {
    values.push_back(option.count() == 0 ? "false" : switch_value(option, option.results().back()));
  } else {
    values = option.results();
    if (option.count() == 0) values = {option.get_default_str()};
    if (option.count() == 0 && values[0].empty()) return {};
    for (std::string& value : values) {
      const bool digits = value.find_first_not_of("0123456789") == std::string::npos;
      const ValueKind kind = kind_of(option);
      const bool bare = kind == ValueKind::kNumber || (kind == ValueKind::kSize && digits);
      if (!bare) value = Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
    }
  }
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return option.get_items_expected_max() > 1 ? "[" + text + "]" : text;
}

toml::table read(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error("config", path + ": is a folder; expected a TOML file");
  std::string text;
  try {
    text = read_text_file(path, kMaxBytes);  // no pipe, which would be waited for, and no device
  } catch (const Error& error) {
    throw Error("config", std::string(error.message()) + "; expected a TOML file");
  }
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    throw Error("config",
                path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + std::string(error.description()));
  }
}

bool excludes_given(const CLI::Option& option, const std::vector<std::string>& args) {
  return std::ranges::any_of(option.get_excludes(), [&](const CLI::Option* other) { return is_given(*other, args); });
}

// `lenient`: what excludes a given flag is left out, not refused later.
std::vector<std::string> with_table(CLI::App& command, std::vector<std::string> args, const std::string& path,
                                    const toml::table& table, bool lenient) {
  std::vector<std::string> out;
  for (const auto& [key_view, node] : table) {
    const std::string key(key_view.str());
    if (key == "model") {  // the one setting that is no flag
      if (!node.is_string()) fail(path, node, "\"model\" is no text; expected a folder or a name");
      const std::string model = value_text(path, key, node);
      if (model.empty() || model.starts_with("-")) fail(path, node, "\"model\" is neither a folder nor a name");
      if (!has_positional(command, args) && !is_set("ASHLAR_MODEL")) out.push_back(model);
      continue;
    }
    if (is_for_command_line(key)) {
      fail(path, node, "\"" + key + "\" cannot stand in a file of settings: it is for the command line; remove it");
    }
    CLI::Option* option = command.get_option_no_throw("--" + key);
    if (option == nullptr) {
      const std::string near = nearest("--" + key, setting_names(command));
      fail(path, node,
           "\"" + for_message(key) + "\" is no setting" +
               (near.empty() ? "" : ", did you mean " + near.substr(2) + "?") + "; ashlar " + command.get_name() +
               " --help lists the flags whose names are expected");
    }
    if (lenient && excludes_given(*option, args)) continue;
    std::vector<std::string> found;
    if (const toml::array* list = node.as_array()) {
      if (option->get_items_expected_max() <= 1) fail(path, node, "\"" + key + "\" is a list; expected one value");
      // Of keys it would leave the server open to all.
      if (list->empty() && key == "api-key")
        fail(path, node, "\"api-key\" is an empty list; expected at least one key");
      for (const toml::node& item : *list) found.push_back(argument(path, key, *option, item));
    } else {
      found.push_back(argument(path, key, *option, node));
    }
    if (!is_given(*option, args) && !in_environment(*option)) out.insert(out.end(), found.begin(), found.end());
  }
  out.insert(out.end(), args.begin(), args.end());
  return out;
}

}  // namespace

std::vector<std::string> with_config_file(CLI::App& command, std::vector<std::string> args) {
  const std::string path = given_value(command, "--config", args);
  return path.empty() ? args : with_table(command, args, path, read(path), false);
}

std::vector<std::string> with_settings(CLI::App& command, std::vector<std::string> args, const std::string& where,
                                       const std::string& toml) {
  return with_table(command, std::move(args), where, toml::parse(toml, where), true);
}

std::string describe_settings(CLI::App& command, const std::vector<std::string>& args) {
  std::ostringstream out;
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->nonpositional() ? main_name(*option) : "model";
    if (name == "help" || name == "print-config") continue;
    std::string source = "default";
    if (is_given(*option, args) || (!option->nonpositional() && has_positional(command, args))) {
      source = "command line";
    } else if (in_environment(*option)) {
      source = "environment, " + option->get_envname();
    } else if (option->count() > 0) {
      source = "file";
    }
    const bool secret = name == "api-key" && option->count() > 0;
    const std::string value = secret ? "(hidden)" : toml_value(*option);
    // What is printed is a file of settings again: it can name no other one, keys are not shown, and a switch that
    // was not set must not ask for what it needs.
    const bool ignored = value.empty() || (is_switch(*option) && option->count() == 0);
    const bool comment = ignored || secret || name == "config";
    out << (comment ? "# " : "") << name << " = " << value << (value.empty() ? "   # not set" : "    # " + source)
        << "\n";
  }
  return out.str();
}

std::string given_settings(CLI::App& command) {
  std::string out;
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->nonpositional() ? main_name(*option) : "model";
    if (option->count() == 0 || name == "help" || name == "config" || name == "api-key" || name == "resume") continue;
    out += name + " = " + toml_value(*option) + "\n";
  }
  return out;
}

std::vector<std::string> given_arguments(const CLI::App& parsed, const CLI::App& other) {
  std::vector<std::string> out;
  for (const CLI::Option* option : parsed.get_options()) {
    const std::string name = main_name(*option);
    if (name == "help" || option->count() == 0) continue;
    if (!option->nonpositional()) {
      out.insert(out.begin(), option->results().begin(), option->results().end());
    } else if (other.get_option_no_throw("--" + name) != nullptr) {
      for (const std::string& result : option->results()) {
        out.push_back("--" + name + "=" + (is_switch(*option) ? switch_value(*option, result) : result));
      }
    }
  }
  return out;
}

}  // namespace ashlar
