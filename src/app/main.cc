// SPDX-License-Identifier: Apache-2.0
// The ashlar program: one subcommand a file, registered here.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "app/command_line/command_line.h"
#include "app/command_line/config_file.h"
#include "app/process/stack_room.h"
#include "app/process/terminate_handler.h"
#include "app/program.h"
#include "app/serve/log.h"
#include "app/train/presets.h"
#include "base/error.h"
#include "session/output.h"
#include "session/terminal.h"

namespace {

constexpr const char* kIntroduction =
    "ashlar runs language models and lets a small drafter model write ahead: several tokens a step, each checked, so "
    "the\n"
    "answer is token for token the one that plain decoding gives.\n"
    "\n"
    "  ashlar run --prompt \"Solve for x: 8x + 5 = 3x + 45\"    ask the bundled model\n"
    "  ashlar chat                                            talk to it\n"
    "  ashlar serve                                           OpenAI's API and a page on port 8080\n"
    "  ashlar run MODEL --prompt TEXT                         use a Hugging Face folder or .gguf file of yours\n"
    "  ashlar pull ORG/MODEL                                  fetch a model from the Hugging Face hub\n"
    "  ashlar list                                            models on this machine\n"
    "  ashlar inspect MODEL                                   what a model holds and what it needs\n"
    "  ashlar demo                                            plain decoding against drafting, side by side\n"
    "  ashlar eval acceptance, ashlar bench                   measure drafting and speed\n"
    "  ashlar doctor                                          check this machine and the setup\n"
    "\n"
    "ashlar --help lists all commands; ashlar COMMAND --help explains one.\n";

// Messages for machines where those are asked for: a reader of one object a line fails at anything else.
void apply_log_format(const CLI::App& serve, const std::vector<std::string>& args) {
  if (ashlar::given_value(serve, "--log-format", args) != "json") return;
  ashlar::LogOptions options;
  options.format = "json";
  ashlar::log_messages(options);
  ashlar::terminate_as_json();
}

int usage_error(const std::string& message, const std::string& command) {
  ashlar::print_error(message);
  ashlar::print_note("See: " + command + " --help");
  return 2;
}

// Usage errors end with 2, as in most programs; help and version with 0. A service manager need not try those again.
int finish(const CLI::App& app, const ashlar::ChosenCommand& chosen, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::Success*>(&error) != nullptr) {
    std::ostringstream out, warnings;
    const int code = app.exit(error, out, warnings);
    ashlar::write_output(out.str());
    return code;
  }
  if (dynamic_cast<const CLI::RuntimeError*>(&error) != nullptr) return error.get_exit_code();
  return usage_error(ashlar::explain(chosen, error), chosen.path);
}

bool is_server(const ashlar::ChosenCommand& chosen) { return chosen.path == "ashlar serve"; }

// Long-running commands have a file of settings. Throws Error if that is wrong, which is a usage error as a wrong flag
// is.
std::vector<std::string> with_settings(const ashlar::ChosenCommand& chosen) {
  if (!is_server(chosen) && chosen.path != "ashlar train") return chosen.args;
  const std::vector<std::string> args = ashlar::with_config_file(*chosen.app, chosen.args);
  if (!is_server(chosen)) return ashlar::with_train_preset(*chosen.app, args);
  apply_log_format(*chosen.app, args);
  return args;
}

int run(CLI::App& app, const ashlar::ChosenCommand& chosen, std::vector<std::string> args) {
  if (!chosen.problem.empty()) return usage_error(chosen.problem, chosen.path);
  if (is_server(chosen)) apply_log_format(*chosen.app, chosen.args);
  const std::string problem = ashlar::apply_variables(app, chosen);
  std::vector<std::string> own;
  try {
    own = with_settings(chosen);
  } catch (const ashlar::Error& error) {
    return usage_error(error.what(), chosen.path);
  }
  if (!problem.empty()) return usage_error(problem, chosen.path);
  args.resize(args.size() - chosen.args.size());
  args.insert(args.end(), own.begin(), own.end());
  std::reverse(args.begin(), args.end());  // as CLI11 takes them
  try {
    app.parse(std::move(args));
  } catch (const CLI::ParseError& error) {
    return finish(app, chosen, error);
  }
  if (app.get_subcommands().empty()) ashlar::write_output(kIntroduction);
  const CLI::Option* shows = chosen.app->get_option_no_throw("--print-config");
  if (shows != nullptr && shows->count() > 0) {
    ashlar::write_output(ashlar::describe_settings(*chosen.app, chosen.args));
  }
  return 0;
}

// An answer that could not be written is no success. A reader that has gone needs no message.
int end(int code) {
  ashlar::flush_output();
  const int why = ashlar::output_error();
  if (why == 0) return code;
  if (why != EPIPE) ashlar::print_error(std::string("standard output: ") + std::strerror(why));
  return code == 0 ? 1 : code;
}

int run_program(int argc, char** argv) {
  CLI::App app(ashlar::program_title(), "ashlar");
  int code = 1;
  try {
    ashlar::build_program(app);
    const std::vector<std::string> args = ashlar::spelled_out({argv + 1, argv + argc});
    code = run(app, ashlar::choose_command(app, args), args);
  } catch (const ashlar::Error& error) {
    if (ashlar::output_error() == 0) ashlar::print_error(error.what());
  } catch (const std::bad_alloc&) {
    ashlar::print_error(ashlar::kOutOfMemory);
  } catch (const std::exception& error) {
    ashlar::print_error(error.what());
  }
  return end(code);
}

}  // namespace

int main(int argc, char** argv) {
  ashlar::handle_uncaught_exceptions();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that is too large for a limit of the system is an error as a full disk is
  ashlar::hold_standard_streams();
  return ashlar::with_stack_room([&] { return run_program(argc, argv); });
}
