// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>

#include "app/commands/commands.h"
#include "app/doctor/doctor.h"
#include "app/pulling.h"
#include "app/serve/api_keys.h"
#include "app/serve/server_program.h"
#include "app/serve/service_manager.h"
#include "base/error.h"

namespace ashlar {
namespace {

// Signals wait until the main thread asks for them: no handler, no flag, and every other thread is spared. What a
// terminal that closes and a quit key send ends a server as gently as the rest does.
sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  return set;
}

// They mean nothing to a server, and would end it. So does SIGHUP where nohup says so, which blocking respects.
void ignore_other_signals() {
  for (const int signal : {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM}) std::signal(signal, SIG_IGN);
}

bool signal_waits() {
  const sigset_t set = end_signals();
  const timespec now{0, 0};
  return sigtimedwait(&set, nullptr, &now) > 0;
}

void report_health(const ServiceManager& manager, ServerProgram& program, bool& was_well) {
  const std::string problem = program.problem();
  if (problem.empty()) manager.notify("WATCHDOG=1");
  if (problem.empty() == was_well) return;
  was_well = problem.empty();
  manager.notify("STATUS=" + (was_well ? "listening on " + program.address() : problem));
  if (!was_well) program.log().write(LogLevel::kError, "not well: " + problem);
}

// Says "still well" as often as the service manager wants to hear it. A server that is not well keeps silent, and is
// restarted if that lasts. 0 in the place of a signal: the device is lost.
int wait_for_signal(const ServiceManager& manager, ServerProgram& program) {
  constexpr std::chrono::microseconds kLook = std::chrono::seconds(1);
  const sigset_t set = end_signals();
  const auto interval = manager.watchdog_interval();
  const int64_t us = std::min(interval.value_or(kLook), kLook).count();
  const timespec time{us / 1'000'000, us % 1'000'000 * 1000};
  bool was_well = true;
  for (;;) {
    const int signal = sigtimedwait(&set, nullptr, &time);
    if (signal > 0) return signal;
    if (errno != EAGAIN) continue;
    if (interval) report_health(manager, program, was_well);
    if (!program.lost().empty()) return 0;
  }
}

// What can be known to be wrong before a model is fetched and loaded, which takes a while.
void check_cheap_things(const ServeOptions& options) {
  doctor::try_tls(options.http.tls_cert_file, options.http.tls_key_file);
  if (!options.api_key_file.empty()) read_api_keys(options.api_key_file);
  for (const doctor::Finding& finding :
       {doctor::check_port(options.http.host, options.http.port), doctor::check_request_log(options.request_log)}) {
    if (finding.severity == doctor::Severity::kProblem) throw Error("serve", finding.found + "; " + finding.advice);
  }
}

void serve(const ServeOptions& options) {
  if (options.log.format == "json") log_messages(options.log);
  ignore_other_signals();
  check_cheap_things(options);
  pull_missing(options.session);  // while Ctrl-C still ends the program
  const sigset_t set = end_signals();
  const ServiceManager manager;               // changes the environment, which threads read
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // before the first thread starts
  ServerProgram program(options);
  Log& log = program.log();
  log.write(LogLevel::kInfo, "listening on " + program.address() + " (the page there, the OpenAI API under /v1)",
            {{"port", program.port()}});
  manager.notify("READY=1\nSTATUS=listening on " + program.address());
  const int signal = wait_for_signal(manager, program);
  manager.notify("STOPPING=1\nSTATUS=running answers may end");
  if (signal > 0) {
    log.write(LogLevel::kInfo, "shutting down: running answers may end; once more to stop at once",
              {{"signal", std::string("SIG") + sigabbrev_np(signal)}, {"drain_s", options.drain_s}});
  }
  const bool clean = program.drain([&manager] {
    if (manager.watchdog_interval()) manager.notify("WATCHDOG=1");
    return signal_waits();
  });
  // The exit code asks a supervisor for another start.
  if (const std::string lost = program.lost(); !lost.empty()) throw Error("serve", "the server ends: " + lost);
  log.write(clean ? LogLevel::kInfo : LogLevel::kWarn, clean ? "ended" : "ended; some answers were cut short");
}

}  // namespace

CLI::App* add_serve_command(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP: OpenAI's API, a page, metrics");
  add_serve_flags(*command, *options);
  command->footer(
      "A setting is taken from its flag, else its variable, else the file of --config. A MODEL or drafter that is "
      "named\n"
      "ORG/NAME and not here yet is fetched from the Hugging Face hub at the start, as ashlar pull does.\n"
      "Examples:\n"
      "  ashlar serve\n"
      "  ashlar serve ~/models/Qwen3-0.6B --drafter ~/models/Qwen3-0.6B-DFlash --port 8000\n"
      "  ashlar serve --host 0.0.0.0 --api-key-file keys.txt --tls-cert cert.pem --tls-key key.pem");
  command->callback([options] {
    if (!options->print_config) serve(*options);
  });
  return command;
}

}  // namespace ashlar
