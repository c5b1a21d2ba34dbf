// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/command_line/config_file.h"
#include "app/commands/commands.h"
#include "app/doctor/doctor.h"
#include "app/serve/serve_options.h"
#include "base/error.h"
#include "session/output.h"

namespace ashlar {
namespace {

using doctor::Finding;
using doctor::Severity;

// The settings that a server of this command line would have, its file read. On an error they stay as they are.
Finding check_config(const CLI::App& command, ServeOptions& options) {
  if (options.config.empty()) return {"config", Severity::kOk, "no file of settings", ""};
  ServeOptions whole;
  CLI::App serve("", "serve");
  add_serve_flags(serve, whole);
  try {
    std::vector<std::string> args = with_config_file(serve, given_arguments(command, serve));
    std::reverse(args.begin(), args.end());  // as CLI11 takes them
    serve.parse(args);
    options = whole;
    return {"config", Severity::kOk, options.config + " is valid", ""};
  } catch (const CLI::ParseError& error) {
    return {"config", Severity::kProblem, error.what(), "ashlar serve --help lists the flags and what they take"};
  } catch (const Error& error) {
    return {"config", Severity::kProblem, error.what(), "ashlar serve --help lists the flags and what they take"};
  }
}

void examine(const CLI::App& command, ServeOptions options, bool as_json) {
  std::vector<Finding> findings = {check_config(command, options)};
  const DeviceOptions& device = options.session.device_options;
  const Finding cpu = doctor::check_cpu(device.isa);
  for (Finding& gpu : doctor::check_gpus()) findings.push_back(std::move(gpu));
  findings.insert(findings.end(),
                  {cpu, doctor::check_cores(device.threads), doctor::check_huge_pages(),
                   doctor::check_bandwidth(options.session.device, device),
                   doctor::check_descriptors(static_cast<int64_t>(options.http.max_connections)), doctor::check_clock(),
                   doctor::check_port(options.http.host, options.http.port),
                   doctor::check_tls(options.http.tls_cert_file, options.http.tls_key_file),
                   doctor::check_access(options.http.host, options.guard.api_keys, options.api_key_file),
                   doctor::check_request_log(options.request_log)});
  if (cpu.severity != Severity::kProblem) {
    for (Finding& finding : doctor::check_model(options.session)) findings.push_back(std::move(finding));
  }
  const std::string text =
      as_json ? doctor::report_json(findings).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
              : doctor::report_lines(findings);
  write_output(text);
  if (doctor::worst(findings) == Severity::kProblem) throw CLI::RuntimeError(1);
}

}  // namespace

CLI::App* add_doctor_command(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "Check this machine, the model and the settings of a server");
  command->add_flag("--json", *as_json, "The report as JSON");
  add_serve_flags(*command, *options);
  command->remove_option(command->get_option("--print-config"));
  command->footer(
      "Takes the flags of ashlar serve and says how a server with them would fare. Exit code 1 if there is a "
      "problem.\nExamples:\n  ashlar doctor\n  ashlar doctor ~/models/Qwen3-0.6B --config ashlar.toml");
  command->callback([options, as_json, command] { examine(*command, *options, *as_json); });
  return command;
}

}  // namespace ashlar
