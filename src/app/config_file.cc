#include "app/config_file.h"

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

// A name of an option and whether it is there to switch something off.
std::string main_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name(true) : option.get_lnames().front();
}

bool is_switch(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// What a switch's name says: of --no-x, which CLI11 keeps as "x is false", whether it was given.
std::string switch_value(const CLI::Option& option, const std::string& result) {
  const bool negative = option.check_fname(main_name(option));
  return (result == "true") != negative ? "true" : "false";
}

// Whether the command line sets the option by one of its names.
bool given(const CLI::Option& option, const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--") return false;
    for (const std::string& name : option.get_lnames()) {
      if (arg == "--" + name || arg.starts_with("--" + name + "=")) return true;
    }
    for (const std::string& name : option.get_snames()) {
      if (arg.starts_with("-" + name) && !arg.starts_with("--")) return true;
    }
  }
  return false;
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

bool in_environment(const CLI::Option& option) {
  return !option.get_envname().empty() && is_set(option.get_envname().c_str());
}

std::string config_path(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--config" && i + 1 < args.size()) return args[i + 1];
    if (args[i].starts_with("--config=")) return args[i].substr(9);
  }
  const char* variable = std::getenv("ASHLAR_CONFIG");
  return variable == nullptr ? "" : variable;
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

// The value as an argument, after the checks that the parser would make too, without knowing of the file.
std::string argument(const std::string& path, const std::string& key, CLI::Option& option, const toml::node& node) {
  std::string text = value_text(path, key, node);
  if (is_switch(option) != node.is_boolean()) {
    fail(path, node,
         "\"" + key + "\" is " + for_message(text) + "; expected " +
             (is_switch(option) ? "true or false" : "a value, not true or false"));
  }
  std::string out = "--" + key + "=" + text;
  for (int i = 0;; ++i) {
    CLI::Validator* validator = nullptr;
    try {
      validator = option.get_validator(i);
    } catch (const CLI::OptionNotFound&) {  // there are no more
      return out;
    }
    std::string scratch = text;  // some change it
    if (const std::string why = (*validator)(scratch); !why.empty()) fail(path, node, "\"" + key + "\": " + why);
  }
}

toml::table read(const std::string& path) {
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    throw Error("config",
                path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + std::string(error.description()));
  }
}

}  // namespace

std::vector<std::string> with_config_file(CLI::App& command, std::vector<std::string> args) {
  const std::string path = config_path(args);
  if (path.empty()) return args;
  std::vector<std::string> out;
  for (const auto& [key_view, node] : read(path)) {
    const std::string key(key_view.str());
    if (key == "model") {  // the one setting that is no flag
      if (!node.is_string()) fail(path, node, "\"model\" is no text; expected a folder or a name");
      const std::string model = value_text(path, key, node);
      if (model.empty() || model.starts_with("-")) fail(path, node, "\"model\" is neither a folder nor a name");
      if (!has_positional(command, args) && !is_set("ASHLAR_MODEL")) out.push_back(model);
      continue;
    }
    CLI::Option* option = command.get_option_no_throw("--" + key);
    if (option == nullptr || key == "config" || key == "help" || key == "print-config") {
      fail(path, node,
           "\"" + for_message(key) + "\" is no setting; ashlar " + command.get_name() +
               " --help lists the flags whose names are expected");
    }
    std::vector<std::string> found;
    if (const toml::array* list = node.as_array()) {
      if (option->get_items_expected_max() <= 1) fail(path, node, "\"" + key + "\" is a list; expected one value");
      for (const toml::node& item : *list) found.push_back(argument(path, key, *option, item));
    } else {
      found.push_back(argument(path, key, *option, node));
    }
    if (!given(*option, args) && !in_environment(*option)) out.insert(out.end(), found.begin(), found.end());
  }
  out.insert(out.end(), args.begin(), args.end());
  return out;
}

std::string describe_settings(const CLI::App& command, const std::vector<std::string>& args) {
  std::ostringstream out;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = main_name(*option);
    if (name == "help" || name == "print-config") continue;
    std::string value;
    for (const std::string& result : option->results()) {
      value += (value.empty() ? "" : ", ") + (is_switch(*option) ? switch_value(*option, result) : result);
    }
    const char* source = "default";
    if (given(*option, args) || (!option->nonpositional() && has_positional(command, args))) {
      source = "command line";
    } else if (in_environment(*option)) {
      source = "environment";
    } else if (option->count() > 0) {
      source = "file";
    }
    if (option->count() == 0) value = is_switch(*option) ? "false" : option->get_default_str();
    if (name == "api-key" && !value.empty()) value = "(hidden)";
    out << name << " = " << (value.empty() ? "(unset)" : value) << "    # " << source << "\n";
  }
  return out.str();
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
