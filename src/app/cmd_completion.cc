#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/completion.h"
#include "app/man_page.h"

namespace ashlar {

CLI::App* add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands and flags in a shell");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->check(CLI::IsMember(completion_shells()).description(""))
      ->required();
  command->footer(
      "Examples:\n"
      "  source <(ashlar completion bash)\n"
      "  ashlar completion bash > /etc/bash_completion.d/ashlar\n"
      "  ashlar completion zsh > /usr/local/share/zsh/site-functions/_ashlar\n"
      "  ashlar completion fish > ~/.config/fish/completions/ashlar.fish");
  command->callback([shell, &app] { std::fputs(completion_script(command_facts(app), *shell).c_str(), stdout); });
  return command;
}

CLI::App* add_man_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page (roff): ashlar man | man -l -");
  command->footer("Example:\n  ashlar man > /usr/local/share/man/man1/ashlar.1");
  command->callback([&app] { std::fputs(man_page(command_facts(app), ASHLAR_VERSION).c_str(), stdout); });
  return command;
}

}  // namespace ashlar
