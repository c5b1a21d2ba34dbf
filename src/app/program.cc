// SPDX-License-Identifier: Apache-2.0
#include "app/program.h"

#include <algorithm>
#include <sstream>

#include "app/command_line/help_format.h"
#include "app/commands/commands.h"
#include "decode/block/block_decoder.h"
#include "device/device.h"
#include "measure/build_info.h"

namespace ashlar {
namespace {

std::string version_text() {
  std::string isas;
  for (const std::string& isa : isa_choices()) isas += (isas.empty() ? "" : ", ") + isa;
  const std::string commit = build_commit();
  return "ashlar " ASHLAR_VERSION + (commit.empty() ? "" : ", commit " + commit) +
         "\ninstruction sets on this machine, best first: " + isas;
}

// Values of a flag, where they are few enough to be proposed.
std::vector<std::string> choices_of(const CLI::Option& option, const std::string& type) {
  std::vector<std::string> out;
  if (option.check_name("--isa")) return isa_choices();
  if (option.check_name("--dllm-algorithm")) {
    for (const AlgorithmDescription& algorithm : algorithm_descriptions()) out.emplace_back(algorithm.name);
  }
  if (type.find('|') == std::string::npos) return out;
  std::istringstream parts(type);
  for (std::string part; std::getline(parts, part, '|');) out.push_back(part);
  return out;
}

ArgumentFacts facts_of(const CLI::Option& option) {
  ArgumentFacts out;
  out.positional = !option.nonpositional();
  if (out.positional) {
    out.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  }
  // CLI11 keeps help and version as options with a value that is never given.
  const bool is_switch = option.get_type_size() == 0 || option.get_items_expected_max() == 0;
  out.takes_value = !is_switch;
  out.repeatable = option.get_items_expected_max() > 1;
  if (out.takes_value) {
    const std::string type = HelpFormatter().make_option_opts(&option);
    out.type = type.starts_with(' ') ? type.substr(1) : type;
    out.choices = choices_of(option, out.type);
    out.default_text = option.get_default_str();
  }
  out.description = option.get_description();
  out.variable = option.get_envname();
  out.group = option.get_group();
  return out;
}

void collect(const CLI::App& app, const std::vector<std::string>& path, std::vector<CommandFacts>& out) {
  CommandFacts facts;
  facts.path = path;
  facts.description = app.get_description();
  facts.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) facts.arguments.push_back(facts_of(*option));
  }
  const std::vector<const CLI::App*> below =
      app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
  for (const CLI::App* command : below) facts.commands.push_back(command->get_name());
  out.push_back(std::move(facts));
  for (const CLI::App* command : below) {
    std::vector<std::string> longer = path;
    longer.push_back(command->get_name());
    collect(*command, longer, out);
  }
}

}  // namespace

std::string program_title() { return "Language models in blocks of tokens: run, chat, serve, measure."; }

void build_program(CLI::App& app) {
  app.set_version_flag("--version,-V", version_text);
  app.require_subcommand(0, 1);
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(28);
  app.footer(
      "ashlar COMMAND --help explains a command. In its list, [x] is the default and [$X] a variable that can stand in "
      "for the flag.");
  add_run_command(app);
  add_chat_command(app);
  add_pull_command(app);
  add_list_command(app);
  add_rm_command(app);
  add_inspect_command(app);
  add_eval_command(app);
  add_bench_command(app);
  add_synth_command(app);
  add_train_command(app);
  add_calibrate_command(app);
  add_demo_command(app);
  add_serve_command(app);
  add_health_command(app);
  add_doctor_command(app);
  add_completion_command(app);
  add_man_command(app);
}

std::string CommandFacts::name() const {
  std::string text;
  for (const std::string& part : path) text += (text.empty() ? "" : " ") + part;
  return text;
}

std::vector<CommandFacts> command_facts(const CLI::App& program) {
  std::vector<CommandFacts> out;
  collect(program, {}, out);
  return out;
}

}  // namespace ashlar
