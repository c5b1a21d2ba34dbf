// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/completion.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar {
namespace {

// A model is a folder or a file.
bool is_file(const ArgumentFacts& a) {
  return a.type == "FILE" || a.type == "PATH" || (a.positional && a.names.front() == "MODEL");
}
bool is_folder(const ArgumentFacts& a) { return a.type == "FOLDER"; }

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string function_name(const CommandFacts& command) {
  std::string name = "_ashlar";
  for (const std::string& part : command.path) name += "_" + part;
  return name;
}

// What stands between single quotes in zsh and, with the same trick, in fish: no quote, no line end.
std::string quotable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "’";
    } else {
      out += c == '\n' || c == '\\' ? ' ' : c;
    }
  }
  return out;
}

// Words of a command: its flags and the commands below it, values of its positionals.
std::vector<std::string> words_of(const CommandFacts& command) {
  std::vector<std::string> words = command.commands;
  for (const ArgumentFacts& argument : command.arguments) {
    const std::vector<std::string>& more = argument.positional ? argument.choices : argument.names;
    words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

std::string bash_script(const std::vector<CommandFacts>& commands) {
  std::string paths, values, words;
  for (const CommandFacts& command : commands) {
    const std::string name = command.name();
    for (const std::string& below : command.commands)
      paths += (paths.empty() ? "\"" : "|\"") + name + " " + below + "\"";
    for (const ArgumentFacts& argument : command.arguments) {
      if (argument.positional || argument.choices.empty()) continue;
      for (const std::string& flag : argument.names) {
        values += "    \"" + name + ":" + flag + "\") words=\"" + joined(argument.choices, " ") + "\" ;;\n";
      }
    }
    // After a flag with any other value there is nothing to propose but files, as for words that match nothing.
    std::string others;
    for (const ArgumentFacts& argument : command.arguments) {
      if (argument.positional || !argument.takes_value || !argument.choices.empty()) continue;
      for (const std::string& flag : argument.names)
        others += (others.empty() ? "\"" : "|\"") + name + ":" + flag + "\"";
    }
    if (!others.empty()) values += "    " + others + ") words=\"\" ;;\n";
    words += "    \"" + name + "\") words=\"" + joined(words_of(command), " ") + "\" ;;\n";
  }
  return "# bash completion for ashlar: source <(ashlar completion bash)\n"
         "_ashlar() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=\"\" words=\"\" word\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case \"$command $word\" in\n"
         "      " +
         paths +
         ") command=${command:+$command }$word ;;\n"
         "    esac\n"
         "  done\n"
         "  # bash takes --flag=value apart at the sign\n"
         "  if [ \"$cur\" = \"=\" ]; then cur=\"\"; elif [ \"$prev\" = \"=\" ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; "
         "fi\n"
         "  case \"$command\" in\n" +
         words +
         "  esac\n"
         "  case \"$command:$prev\" in\n" +
         values +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "}\n"
         "complete -o bashdefault -o default -F _ashlar ashlar\n";
}

// Text inside [...] or between colons of an _arguments specification.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : quotable(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_value(const ArgumentFacts& argument) {
  std::string out = ":" + zsh_text(argument.type.empty() ? "value" : argument.type) + ":";
  if (!argument.choices.empty()) return out + "(" + joined(argument.choices, " ") + ")";
  if (is_folder(argument)) return out + "_files -/";
  return is_file(argument) ? out + "_files" : out;
}

std::string zsh_function(const CommandFacts& command, const std::vector<CommandFacts>& all) {
  std::string body = function_name(command) + "() {\n";
  if (!command.commands.empty()) {
    body += "  local curcontext=\"$curcontext\" state line\n  local -a commands\n  commands=(\n";
    for (const CommandFacts& other : all) {
      if (other.path.size() == command.path.size() + 1 &&
          std::equal(command.path.begin(), command.path.end(), other.path.begin())) {
        body += "    '" + zsh_text(other.path.back()) + ":" + zsh_text(other.description) + "'\n";
      }
    }
    body += "  )\n";
  }
  body += command.commands.empty() ? "  _arguments" : "  _arguments -C";
  for (const ArgumentFacts& argument : command.arguments) {
    for (const std::string& name : argument.names) {
      body += std::string(" \\\n    '") + (argument.repeatable ? "*" : "");
      if (argument.positional) {
        body += (argument.repeatable ? "" : ":") + zsh_value(argument) + "'";
        continue;
      }
      const bool is_long = name.starts_with("--");
      body += name + (!argument.takes_value ? "" : is_long ? "=" : "+") + "[" + zsh_text(argument.description) + "]";
      body += (argument.takes_value ? zsh_value(argument) : "") + "'";
    }
  }
  if (command.commands.empty()) return body + "\n}\n";
  body +=
      " \\\n    '1: :->command' '*:: :->rest'\n  case $state in\n    command) _describe command commands ;;\n    "
      "rest)\n";
  body += "      case $words[1] in\n";
  for (const std::string& below : command.commands) {
    body += "        " + below + ") " + function_name(command) + "_" + below + " ;;\n";
  }
  return body + "      esac ;;\n  esac\n}\n";
}

std::string zsh_script(const std::vector<CommandFacts>& commands) {
  std::string out = "#compdef ashlar\n# zsh completion for ashlar: source <(ashlar completion zsh)\n";
  for (const CommandFacts& command : commands) out += zsh_function(command, commands);
  return out + "if [ \"$funcstack[1]\" = \"_ashlar\" ]; then _ashlar \"$@\"; else compdef _ashlar ashlar; fi\n";
}

// Holds while `command` and none below it has been typed.
std::string fish_condition(const CommandFacts& command) {
  std::string out;
  for (const std::string& part : command.path)
    out += (out.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + part);
  if (command.path.empty()) return "__fish_use_subcommand";
  if (!command.commands.empty()) out += "; and not __fish_seen_subcommand_from " + joined(command.commands, " ");
  return out;
}

std::string fish_line(const std::string& start, const ArgumentFacts& argument) {
  std::string out = start;
  for (const std::string& name : argument.names) {
    if (!argument.positional) out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!argument.choices.empty()) {
    out += std::string(argument.positional ? "" : " -x") + " -a '" + joined(argument.choices, " ") + "'";
  } else if (is_folder(argument)) {
    out += std::string(argument.positional ? "" : " -x") + " -a '(__fish_complete_directories)'";
  } else if (argument.takes_value) {
    out += is_file(argument) || argument.positional ? " -r -F" : " -x";
  }
  return out + " -d '" + quotable(argument.description) + "'\n";
}

std::string fish_script(const std::vector<CommandFacts>& commands) {
  std::string out = "# fish completion for ashlar: ashlar completion fish | source\ncomplete -c ashlar -f\n";
  for (const CommandFacts& command : commands) {
    const std::string start = "complete -c ashlar -n '" + fish_condition(command) + "'";
    for (const CommandFacts& other : commands) {
      if (other.path.size() == command.path.size() + 1 &&
          std::equal(command.path.begin(), command.path.end(), other.path.begin())) {
        out += start + " -a " + other.path.back() + " -d '" + quotable(other.description) + "'\n";
      }
    }
    for (const ArgumentFacts& argument : command.arguments) out += fish_line(start, argument);
  }
  return out;
}

}  // namespace

const std::vector<std::string>& completion_shells() {
  static const std::vector<std::string> kShells = {"bash", "zsh", "fish"};
  return kShells;
}

std::string completion_script(const std::vector<CommandFacts>& commands, const std::string& shell) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  ASHLAR_CHECK(shell == "fish");
  return fish_script(commands);
}

}  // namespace ashlar
