#include "app/config_file.h"

#include <toml++/toml.h>
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

// Whether the command line sets the option by one of its names.
bool given(const CLI::Option& option, const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    for (const std::string& name : option.get_lnames()) {
      if (arg == "--" + name || arg.starts_with("--" + name + "=")) return true;
    }
    for (const std::string& name : option.get_snames()) {
      if (arg.starts_with("-" + name) && !arg.starts_with("--")) return true;
    }
  }
  return false;
}

bool in_environment(const CLI::Option& option) {
  return !option.get_envname().empty() && std::getenv(option.get_envname().c_str()) != nullptr;
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
  if (node.is_integer() || node.is_floating_point()) {
    std::ostringstream out;
    out.precision(17);
    if (const auto* integer = node.as_integer()) out << integer->get();
    if (const auto* real = node.as_floating_point()) out << real->get();
    return out.str();
  }
  fail(path, node, "\"" + key + "\" is neither text, a number, true or false, nor a list of these");
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

std::vector<std::string> with_config_file(const CLI::App& command, std::vector<std::string> args) {
  const std::string path = config_path(args);
  if (path.empty()) return args;
  std::vector<std::string> out;
  for (const auto& [key_view, node] : read(path)) {
    const std::string key(key_view.str());
    if (key == "model") {  // the one setting that is no flag
      const bool set =
          std::any_of(args.begin(), args.end(), [](const std::string& arg) { return !arg.starts_with("-"); });
      if (!set && std::getenv("ASHLAR_MODEL") == nullptr) out.push_back(value_text(path, key, node));
      continue;
    }
    const CLI::Option* option = command.get_option_no_throw("--" + key);
    if (option == nullptr || key == "config" || key == "help" || key == "print-config") {
      fail(path, node,
           "\"" + for_message(key) + "\" is no setting; ashlar " + command.get_name() +
               " --help lists the flags whose names are expected");
    }
    if (given(*option, args) || in_environment(*option)) continue;
    const auto add = [&](const toml::node& value) { out.push_back("--" + key + "=" + value_text(path, key, value)); };
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) add(item);
    } else {
      add(node);
    }
  }
  out.insert(out.end(), args.begin(), args.end());
  return out;
}

std::string describe_settings(const CLI::App& command, const std::vector<std::string>& args) {
  std::ostringstream out;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_lnames().empty() ? option->get_name() : option->get_lnames().front();
    if (name == "help" || name == "print-config") continue;
    std::string value;
    for (const std::string& result : option->results()) value += (value.empty() ? "" : ", ") + result;
    const char* source = "default";
    if (given(*option, args) || (option->get_lnames().empty() && option->count() > 0)) {
      source = "command line";
    } else if (in_environment(*option)) {
      source = "environment";
    } else if (option->count() > 0) {
      source = "file";
    }
    if (option->count() == 0) value = option->get_default_str();
    if (name == "api-key" && !value.empty()) value = "(hidden)";
    out << name << " = " << (value.empty() ? "(unset)" : value) << "    # " << source << "\n";
  }
  return out.str();
}

}  // namespace ashlar
