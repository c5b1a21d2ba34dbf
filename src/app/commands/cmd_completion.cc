// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "app/command_line/completion.h"
#include "app/command_line/man_page.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/program.h"
#include "session/output.h"

namespace ashlar {
namespace {

// The tree as it is built: the one that is being parsed has given up variables (app/command_line/command_line.h).
std::vector<CommandFacts> whole_tree() {
  CLI::App program(program_title(), "ashlar");
  build_program(program);
  return command_facts(program);
}

}  // namespace

CLI::App* add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands and flags in a shell");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->check(one_of(completion_shells()))
      ->required();
  command->footer(
      "Examples:\n"
      "  source <(ashlar completion bash)\n"
      "  ashlar completion bash > /etc/bash_completion.d/ashlar\n"
      "  ashlar completion zsh > /usr/local/share/zsh/site-functions/_ashlar\n"
      "  ashlar completion fish > ~/.config/fish/completions/ashlar.fish");
  command->callback([shell] { write_output(completion_script(whole_tree(), *shell)); });
  return command;
}

CLI::App* add_man_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page (roff): ashlar man | man -l -");
  command->footer("Example:\n  ashlar man > /usr/local/share/man/man1/ashlar.1");
  command->callback([] { write_output(man_page(whole_tree(), ASHLAR_VERSION)); });
  return command;
}

}  // namespace ashlar
