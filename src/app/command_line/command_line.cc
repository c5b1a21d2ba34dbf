// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/command_line.h"

#include <algorithm>
#include <cstdlib>

#include "app/command_line/foreign_words.h"
#include "app/command_line/validators.h"
#include "io/json.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

std::vector<CLI::App*> commands_below(CLI::App& app) {
  return app.get_subcommands([](CLI::App* command) { return !command->get_group().empty(); });
}

// "eval", "eval acceptance", ...
void collect_names(CLI::App& app, const std::string& before, std::vector<std::string>& out) {
  for (CLI::App* below : commands_below(app)) {
    out.push_back(before + below->get_name());
    collect_names(*below, out.back() + " ", out);
  }
}

bool has_positionals(const CLI::App& app) {
  const auto options = app.get_options([](const CLI::Option* option) { return !option->nonpositional(); });
  return !options.empty();
}

bool takes_value(const CLI::App& app, const std::string& flag) {
  if (flag.find('=') != std::string::npos) return false;
  const CLI::Option* option = app.get_option_no_throw(flag);
  return option != nullptr && option->get_items_expected_max() > 0 && option->get_type_size() > 0;
}

std::string maybe(const std::string& near) { return near.empty() ? "" : "; did you mean " + near + "?"; }

std::string no_command(CLI::App& app, const std::string& path, const std::string& word) {
  std::vector<std::string> names;
  collect_names(app, "", names);
  std::string known;
  for (const CLI::App* below : commands_below(app)) known += (known.empty() ? "" : ", ") + below->get_name();
  const std::string hint = app.get_parent() == nullptr ? foreign_command(word) : "";
  if (!hint.empty()) {
    return path + " has no command " + for_message(word) + "; " + hint;
  }
  const std::string near = nearest(word, names);
  return path + " has no command " + for_message(word) + (near.empty() ? "; expected one of " + known : maybe(near));
}

// Kubernetes sets NAME_PORT=tcp://ADDRESS:PORT in every pod next to a Service called NAME.
bool is_service_link(const std::string& variable, const std::string& value) {
  return variable.ends_with("_PORT") && value.find("://") != std::string::npos;
}

void forget_variables(CLI::App& app, const CLI::App* chosen) {
  if (&app != chosen) {
    for (CLI::Option* option : app.get_options()) option->envname("");
  }
  for (CLI::App* below : app.get_subcommands(std::function<bool(CLI::App*)>())) forget_variables(*below, chosen);
}

// A flag of another program that this command lacks, in words; empty if there is none. -h swallows what follows it, so
// that -hf would print the help.
std::string foreign_flags(const CLI::App& app, const std::string& path, const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    if (!args[i].starts_with('-')) continue;
    const std::string flag = args[i].substr(0, args[i].find('='));
    const bool own = app.get_option_no_throw(flag) != nullptr;
    const std::string hint =
        own ? "" : foreign_flag(flag, app.get_name() == "serve" && app.get_parent()->get_parent() == nullptr);
    if (!hint.empty()) return for_message(flag) + " is no flag of " + path + "; " + hint;
    if (!own && flag.starts_with("-h")) return for_message(flag) + " is no flag of " + path;
    if (takes_value(app, args[i])) ++i;
  }
  return {};
}

std::string unknown_words(const ChosenCommand& chosen) {
  const std::vector<std::string> words = chosen.app->remaining();
  for (const std::string& word : words) {
    if (!word.starts_with('-') || word == "-") continue;
    const std::string flag = word.substr(0, word.find('='));
    return for_message(flag) + " is no flag of " + chosen.path + maybe(nearest(flag, flag_names(*chosen.app)));
  }
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  const bool asks = chosen.app->get_option_no_throw("--prompt") != nullptr;
  return "\"" + for_message(text) + "\" belongs to no flag, and " + chosen.path + " takes no further value; " +
         (asks ? "a prompt goes after its flag: --prompt \"TEXT\"" : "a text with spaces stands between quotes");
}

}  // namespace

std::vector<std::string> spelled_out(std::vector<std::string> args) {
  if (args.empty()) return args;
  if (args[0] == "version") args[0] = "--version";
  if (args[0] == "help") {
    args.erase(args.begin());
    args.emplace_back("--help");
  }
  return args;
}

ChosenCommand choose_command(CLI::App& program, const std::vector<std::string>& args) {
  ChosenCommand out{&program, program.get_name(), args, ""};
  bool is_foreign = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto below = commands_below(*out.app);
    if (below.empty() || args[i] == "--") break;
    if (args[i].starts_with('-')) {
      if (takes_value(*out.app, args[i])) ++i;
      continue;
    }
    const auto found =
        std::find_if(below.begin(), below.end(), [&](const CLI::App* app) { return app->get_name() == args[i]; });
    if (found == below.end()) {
      if (!has_positionals(*out.app)) out.problem = no_command(*out.app, out.path, args[i]);
      is_foreign = !foreign_command(args[i]).empty();
      break;
    }
    out.app = *found;
    out.path += " " + args[i];
    out.args.assign(args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
  }
  // Whose command is another program's has that program's flags.
  const std::string foreign = is_foreign ? std::string() : foreign_flags(*out.app, out.path, out.args);
  if (!foreign.empty()) out.problem = foreign;
  if (!out.problem.empty()) return out;
  const bool asks =
      std::any_of(out.args.begin(), out.args.end(), [](const std::string& a) { return a.starts_with('-'); });
  if (!asks && out.app->get_require_subcommand_min() > 0) {
    std::vector<std::string> names;
    collect_names(*out.app, "", names);
    out.problem = out.path + " needs one of its commands:";
    for (const std::string& name : names) out.problem += " " + name;
  }
  return out;
}

std::string apply_variables(CLI::App& program, const ChosenCommand& chosen) {
  forget_variables(program, chosen.app);
  for (CLI::Option* option : chosen.app->get_options()) {
    const std::string name = option->get_envname();
    if (!in_environment(*option) || is_given(*option, chosen.args)) continue;
    const std::string value = std::getenv(name.c_str());
    if (is_service_link(name, value)) {
      print_warning(name + " is " + for_message(value) +
                    ", as Kubernetes sets it next to a Service of the program's name; it is not used (" +
                    option->get_name() + " says it instead, enableServiceLinks: false ends this)");
      ::unsetenv(name.c_str());
      continue;
    }
    if (const std::string why = problem_with_value(*option, value); !why.empty()) return name + " " + why;
  }
  return {};
}

std::string explain(const ChosenCommand& chosen, const CLI::ParseError& error) {
  const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && chosen.app->remaining_size() > 0;
  if (lacks || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unknown_words(chosen);
  std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing")) {
    return text.substr(0, text.find(':')) + " needs a value";
  }
  // CLI11 puts a colon after the flag's name, where our messages go on with "is".
  if (const size_t at = text.find(": is "); at != std::string::npos && text.find(' ') > at) text.erase(at, 1);
  return text;
}

bool is_given(const CLI::Option& option, const std::vector<std::string>& args) {
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

bool in_environment(const CLI::Option& option) {
  const char* value = option.get_envname().empty() ? nullptr : std::getenv(option.get_envname().c_str());
  return value != nullptr && *value != '\0';
}

std::string given_value(const CLI::App& command, const std::string& flag, const std::vector<std::string>& args) {
  for (size_t i = args.size(); i-- > 0;) {
    if (args[i].starts_with(flag + "=")) return args[i].substr(flag.size() + 1);
    if (args[i] == flag && i + 1 < args.size()) return args[i + 1];
  }
  const CLI::Option* option = command.get_option_no_throw(flag);
  return option != nullptr && in_environment(*option) ? std::getenv(option->get_envname().c_str()) : "";
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> out;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  }
  return out;
}

}  // namespace ashlar
