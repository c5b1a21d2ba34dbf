// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/man_page.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace ashlar {
namespace {

// Text as roff means it: dashes that can be copied, nothing that reads as an escape or a request.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '^') {
      out += "\\(ha";
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string term(const ArgumentFacts& argument) {
  std::string out;
  for (const std::string& name : argument.names) {
    out += (out.empty() ? "" : ", ") + std::string(argument.positional ? "\\fI" : "\\fB") + roff(name) + "\\fR";
  }
  if (!argument.positional && !argument.type.empty()) out += " \\fI" + roff(argument.type) + "\\fR";
  return out;
}

std::string entry(const ArgumentFacts& argument) {
  std::string facts;
  if (!argument.default_text.empty()) facts = "default: " + argument.default_text;
  if (!argument.variable.empty()) facts += (facts.empty() ? "$" : "; $") + argument.variable;
  const std::string text = argument.description + (facts.empty() ? "" : " [" + facts + "]");
  return ".TP\n" + term(argument) + "\n" + roff(text) + "\n";
}

std::string footer(const std::string& text) {
  return text.empty() ? "" : ".PP\n.nf\n" + roff(text) + (text.ends_with('\n') ? "" : "\n") + ".fi\n";
}

std::string section(const CommandFacts& command) {
  std::string out = ".SH \"ASHLAR " + roff(upper(command.name())) + "\"\n" + roff(command.description) + "\n";
  std::vector<std::string> groups;
  for (const ArgumentFacts& argument : command.arguments) {
    if (std::find(groups.begin(), groups.end(), argument.group) == groups.end()) groups.push_back(argument.group);
  }
  for (const std::string& group : groups) {
    out += ".SS \"" + roff(group) + "\"\n";
    for (const ArgumentFacts& argument : command.arguments) {
      if (argument.group == group) out += entry(argument);
    }
  }
  return out + footer(command.footer);
}

std::string environment(const std::vector<CommandFacts>& commands) {
  std::map<std::string, std::string> flags;
  for (const CommandFacts& command : commands) {
    for (const ArgumentFacts& argument : command.arguments) {
      if (!argument.variable.empty()) flags.emplace(argument.variable, argument.names.front());
    }
  }
  std::string out =
      ".SH ENVIRONMENT\n.TP\n\\fBASHLAR_MODELS\\fR\nFolder that holds bundled models; asked before all others.\n"
      ".TP\n\\fBNO_COLOR\\fR\nIf set, no colours.\n";
  constexpr std::pair<const char*, const char*> kHub[] = {
      {"HF_TOKEN", "Opens private and gated models of the hub."},
      {"HF_ENDPOINT", "Another hub than https://huggingface.co."},
      {"HF_HUB_CACHE",
       "Folder that pulled models are kept in; else the folder hub of HF_HOME, else ~/.cache/huggingface/hub."},
      {"HF_HUB_OFFLINE", "1 forbids the network: only what was pulled is found."}};
  for (const auto& [variable, meaning] : kHub) {
    out += ".TP\n\\fB" + roff(variable) + "\\fR\n" + roff(meaning) + "\n";
  }
  for (const auto& [variable, flag] : flags) {
    out += ".TP\n\\fB" + roff(variable) + "\\fR\nStands in for \\fB" + roff(flag) + "\\fR.\n";
  }
  return out;
}

}  // namespace

std::string man_page(const std::vector<CommandFacts>& commands, const std::string& version) {
  const CommandFacts& program = commands.front();
  std::string out = ".\\\" Written by ashlar man\n.TH ASHLAR 1 \"\" \"ashlar " + roff(version) +
                    "\" \"User Commands\"\n.SH NAME\nashlar \\- run, chat with, serve and measure language models\n"
                    ".SH SYNOPSIS\n\\fBashlar\\fR \\fICOMMAND\\fR [\\fIFLAG\\fR]... [\\fIMODEL\\fR]\n"
                    ".SH DESCRIPTION\n" +
                    roff(program.description) + "\n.PP\n" +
                    roff(
                        "A drafter proposes several tokens at once and the model checks them in one step: answers "
                        "are token for token those of plain decoding. Without a drafter, what followed the same "
                        "tokens before is proposed. Without MODEL the bundled one is used.") +
                    "\n.SH COMMANDS\n";
  for (const CommandFacts& command : commands) {
    if (!command.path.empty()) out += ".TP\n\\fB" + roff(command.name()) + "\\fR\n" + roff(command.description) + "\n";
  }
  out += ".SH OPTIONS\n";
  for (const ArgumentFacts& argument : program.arguments) out += entry(argument);
  for (const CommandFacts& command : commands) {
    if (!command.path.empty()) out += section(command);
  }
  out += environment(commands);
  return out +
         ".SH \"EXIT STATUS\"\n.TP\n0\nDone.\n.TP\n1\nSomething given from outside is wrong or missing; the message "
         "says "
         "what.\n.TP\n2\nThe command line, a variable or the file of settings is wrong.\n.TP\n130\nEnded by "
         "Ctrl\\-C.\n";
}

}  // namespace ashlar
