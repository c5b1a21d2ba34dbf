// The ashlar program: one subcommand a file, registered here.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "app/config_file.h"
#include "app/program.h"
#include "app/terminal.h"
#include "base/error.h"

namespace {

constexpr const char* kIntroduction =
    "ashlar runs language models and lets a small drafter model write ahead: several tokens a step, each checked, so "
    "the\n"
    "answer is token for token the one that plain decoding gives.\n"
    "\n"
    "  ashlar run --prompt \"Solve for x: 8x + 5 = 3x + 45\"    ask the bundled model\n"
    "  ashlar chat                                            talk to it\n"
    "  ashlar serve                                           OpenAI's API and a page on port 8080\n"
    "  ashlar run FOLDER --prompt TEXT                        use a Hugging Face model folder of yours\n"
    "  ashlar pull ORG/MODEL                                  fetch a model from the Hugging Face hub\n"
    "  ashlar inspect FOLDER                                  what a folder holds and what it needs\n"
    "  ashlar demo                                            plain decoding against drafting, side by side\n"
    "  ashlar eval acceptance, ashlar bench                   measure drafting and speed\n"
    "  ashlar doctor                                          check this machine and the setup\n"
    "\n"
    "ashlar --help lists all commands; ashlar COMMAND --help explains one.\n";

// Only the server has a file of settings.
void parse(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (args.empty() || args.front() != "serve") return app.parse(argc, argv);
  CLI::App& serve = *app.get_subcommand("serve");
  const std::vector<std::string> own(args.begin() + 1, args.end());
  args = ashlar::with_config_file(serve, own);
  args.insert(args.begin(), "serve");
  std::reverse(args.begin(), args.end());  // as CLI11 takes them
  app.parse(args);
  if (serve.get_option("--print-config")->count() > 0) {
    std::fputs(ashlar::describe_settings(serve, own).c_str(), stdout);
  }
}

// Usage errors end with 2, as in most programs; help and version with 0.
int finish(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::Success*>(&error) != nullptr) return app.exit(error);
  if (dynamic_cast<const CLI::RuntimeError*>(&error) != nullptr) return error.get_exit_code();
  ashlar::print_error(error.what());
  std::string command;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    command += " " + at->get_name();
  }
  std::fprintf(stderr, "See: ashlar%s --help\n", command.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(ashlar::program_title(), "ashlar");
  app.failure_message([](const CLI::App*, const CLI::Error& error) { return std::string(error.what()) + "\n"; });
  try {
    ashlar::build_program(app);
    parse(app, argc, argv);
    if (app.get_subcommands().empty()) std::fputs(kIntroduction, stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    return finish(app, error);
  } catch (const ashlar::Error& error) {
    ashlar::print_error(error.what());
  } catch (const std::bad_alloc&) {
    ashlar::print_error("out of memory; a smaller --kv-memory, --max-context or --max-sequences needs less");
  } catch (const std::exception& error) {
    ashlar::print_error(error.what());
  }
  return 1;
}
