// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/serve/http_probe.h"
#include "io/json.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

struct HealthOptions {
  std::string url;
  double timeout_s = 5;
  bool quiet = false;
};

// The server that the same variables would start on this machine.
std::string own_url() {
  const char* port = std::getenv("ASHLAR_PORT");
  const char* cert = std::getenv("ASHLAR_TLS_CERT");
  const bool tls = cert != nullptr && *cert != '\0';
  // A URL there is Kubernetes' word about a Service, which the server passes over too.
  const bool own = port != nullptr && *port != '\0' && std::string_view(port).find("://") == std::string_view::npos;
  return std::string(tls ? "https" : "http") + "://127.0.0.1:" + (own ? port : "8080");
}

void check_health(const HealthOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL's sockets may raise it
  const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  const ProbeAnswer answer = probe(options.url.empty() ? own_url() : options.url, "/health", timeout);
  const bool healthy = answer.status == 200;
  if (!options.quiet) {
    std::string body = for_message(answer.body);
    while (!body.empty() && (body.back() == '?' || body.back() == ' ')) body.pop_back();  // the line's end
    std::printf("%s: %d %s\n", healthy ? "healthy" : "unhealthy", answer.status, body.c_str());
  }
  if (!healthy) throw CLI::RuntimeError(1);
}

}  // namespace

CLI::App* add_health_command(CLI::App& app) {
  auto options = std::make_shared<HealthOptions>();
  CLI::App* command = app.add_subcommand("health", "Ask a running server whether it is well: exit code 0, else 1");
  command->add_option("URL", options->url, "Of the server (default: http://127.0.0.1:$ASHLAR_PORT, or port 8080)");
  command->add_option("--timeout", options->timeout_s, "Seconds to wait for an answer")
      ->type_name("S")
      ->transform(number(0.01, 3600.0))
      ->capture_default_str();
  command->add_flag("-q,--quiet", options->quiet, "Print nothing about the answer");
  command->callback([options] { check_health(*options); });
  return command;
}

}  // namespace ashlar
