// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/serve/api_keys.h"
#include "app/serve/serve_options.h"
#include "io/json.h"
#include "session/memory_plan.h"

namespace ashlar {
namespace {

constexpr const char* kNetworkGroup = "Network";
constexpr const char* kAccessGroup = "Access";
constexpr const char* kLoadGroup = "Load";
constexpr const char* kLogGroup = "Logs and settings";

std::string as_found(const std::string& text) { return "is " + (text.empty() ? "empty" : for_message(text)); }

std::string check_name(std::string& name) { return name.empty() ? as_found(name) + "; expected a name" : ""; }

std::string check_host(std::string& host) {
  const bool bare = !host.empty() && host.find_first_of("/ ") == std::string::npos;
  return bare ? "" : as_found(host) + "; expected a name without scheme and path, such as llm.example, or *";
}

// As browsers send it: scheme, host and perhaps a port, and no slash after them.
std::string check_origin(std::string& origin) {
  const size_t at = origin.find("://");
  const bool whole = at != std::string::npos && at > 0 && at + 3 < origin.size() &&
                     origin.find_first_of("/ ", at + 3) == std::string::npos;
  return whole || origin == "*"
             ? ""
             : as_found(origin) + "; expected a scheme and a host, such as https://chat.example, or *";
}

void add_network_flags(CLI::App& command, ServeOptions& options) {
  command.add_option("--host", options.http.host, "Address to listen on; 0.0.0.0 for every one of this machine's")
      ->type_name("H")
      ->envname("ASHLAR_HOST")
      ->capture_default_str()
      ->group(kNetworkGroup);
  command.add_option("--port", options.http.port, "Port to listen on (0: any free one)")
      ->type_name("P")
      ->transform(whole(0, 65535))
      ->envname("ASHLAR_PORT")
      ->capture_default_str()
      ->group(kNetworkGroup);
  CLI::Option* cert =
      command.add_option("--tls-cert", options.http.tls_cert_file, "Certificate chain (PEM): serve https")
          ->type_name("FILE")
          ->envname("ASHLAR_TLS_CERT")
          ->group(kNetworkGroup);
  CLI::Option* key = command.add_option("--tls-key", options.http.tls_key_file, "Its private key (PEM)")
                         ->type_name("FILE")
                         ->envname("ASHLAR_TLS_KEY")
                         ->group(kNetworkGroup);
  cert->needs(key);
  key->needs(cert);
  command.add_option("--max-connections", options.http.max_connections, "Open connections")
      ->type_name("N")
      ->transform(whole(1, 65536))
      ->capture_default_str()
      ->group(kNetworkGroup);
  const auto set_body_bytes = [&options](const std::string& text) {
    options.http.max_body_bytes = static_cast<size_t>(*parse_bytes(text));
  };
  command.add_option_function<std::string>("--max-body-bytes", set_body_bytes, "Largest body of a request, e.g. 32M")
      ->type_name("SIZE")
      ->check(size(1 << 10, 1 << 30))
      ->default_str(std::to_string(options.http.max_body_bytes))
      ->group(kNetworkGroup);
}

void add_access_flags(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--api-key", options.guard.api_keys,
                  "A key that clients must send (repeatable). ps shows it: a file is safer")
      ->type_name("KEY")
      ->check(CLI::Validator([](std::string& key) { return problem_with_api_key(key); }, ""))
      ->envname("ASHLAR_API_KEY")
      ->allow_extra_args(false)
      ->group(kAccessGroup);
  command
      .add_option("--api-key-file", options.api_key_file, "File of keys, one a line; lines that begin with # are none")
      ->type_name("FILE")
      ->envname("ASHLAR_API_KEY_FILE")
      ->group(kAccessGroup);
  command
      .add_option("--allowed-host", options.guard.host_names,
                  "A name under which clients reach this server (repeatable; *: any)")
      ->type_name("NAME")
      ->check(CLI::Validator(check_host, ""))
      ->allow_extra_args(false)
      ->group(kAccessGroup);
  command
      .add_option("--allowed-origin", options.guard.origins,
                  "A site whose pages may ask, such as https://chat.example (repeatable; *: any)")
      ->type_name("ORIGIN")
      ->check(CLI::Validator(check_origin, ""))
      ->allow_extra_args(false)
      ->group(kAccessGroup);
}

void add_load_flags(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--max-waiting", options.service.max_waiting_requests,
                  "Answers that may wait for a place; more get a 429")
      ->type_name("N")
      ->transform(whole(0, 1 << 20))
      ->envname("ASHLAR_MAX_WAITING")
      ->capture_default_str()
      ->group(kLoadGroup);
  command
      .add_option("--max-waiting-tokens", options.service.max_waiting_tokens,
                  "Prompt tokens of all running and waiting answers; more get a 429")
      ->type_name("N")
      ->transform(whole(1, int64_t{1} << 40))
      ->capture_default_str()
      ->group(kLoadGroup);
  command.add_option("--timeout", options.timeout_s, "Seconds a request may take (0: any)")
      ->type_name("S")
      ->transform(number(0.0, 1e6))
      ->envname("ASHLAR_TIMEOUT")
      ->capture_default_str()
      ->group(kLoadGroup);
  command.add_option("--drain", options.drain_s, "Seconds that running answers may go on after SIGTERM")
      ->type_name("S")
      ->transform(number(0.0, 1e5))
      ->envname("ASHLAR_DRAIN")
      ->capture_default_str()
      ->group(kLoadGroup);
}

void add_hidden_states_flags(CLI::App& command, ServeOptions& options) {
  CLI::Option* allow = command
                           .add_option("--allow-hidden-states", options.hidden_states,
                                       "Write hidden states of prompts here for clients that ask for them")
                           ->type_name("FOLDER")
                           ->envname("ASHLAR_ALLOW_HIDDEN_STATES")
                           ->group(kLogGroup);
  const auto set_bytes = [&options](const std::string& text) { options.hidden_states_bytes = *parse_bytes(text); };
  command
      .add_option_function<std::string>("--hidden-states-size", set_bytes,
                                        "Most of it; what would be more is refused until files are taken away")
      ->type_name("SIZE")
      ->check(size(1 << 20, int64_t{1} << 50))
      ->default_str(std::to_string(options.hidden_states_bytes))
      ->group(kLogGroup);
  command
      .add_option("--aux-layers", options.aux_layers,
                  "Layers of these hidden states, before the last one (default: five, evenly from 1 to N-3)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(whole(0, 999))
      ->type_name("N,...")
      ->needs(allow)
      ->group(kLogGroup);
}

void add_log_flags(CLI::App& command, ServeOptions& options) {
  command.add_option("--log-format", options.log.format, "text, or json: one object a line")
      ->type_name("text|json")
      ->check(one_of({"text", "json"}))
      ->envname("ASHLAR_LOG_FORMAT")
      ->capture_default_str()
      ->group(kLogGroup);
  command.add_option("--log-level", options.log.level, "What is logged: this and worse")
      ->type_name("debug|info|warn|error")
      ->check(one_of({"debug", "info", "warn", "error"}))
      ->envname("ASHLAR_LOG_LEVEL")
      ->capture_default_str()
      ->group(kLogGroup);
  CLI::Option* log = command
                         .add_option("--request-log", options.request_log,
                                     "Write ids, timings and acceptance of every request to this SQLite file")
                         ->type_name("FILE")
                         ->envname("ASHLAR_REQUEST_LOG")
                         ->group(kLogGroup);
  command.add_flag("--log-texts", options.log_texts, "Prompts and answers in the request log too")
      ->needs(log)
      ->group(kLogGroup);
  CLI::Option* learn =
      command
          .add_option("--learn", options.learn, "Keep the token ids of answers in this folder, to train a drafter on")
          ->type_name("FOLDER")
          ->envname("ASHLAR_LEARN")
          ->group(kLogGroup);
  const auto set_learn_bytes = [&options](const std::string& text) { options.learn_bytes = *parse_bytes(text); };
  command.add_option_function<std::string>("--learn-size", set_learn_bytes, "Most of it; the oldest goes, e.g. 1G")
      ->type_name("SIZE")
      ->check(size(1 << 20, int64_t{1} << 40))
      ->default_str(std::to_string(options.learn_bytes))
      ->group(kLogGroup);
  command
      .add_flag("--learn-idle", options.learn_idle,
                "When idle, train the drafter on with it (from 200 new answers on), and use a better one")
      ->needs(learn)
      ->group(kLogGroup);
  add_hidden_states_flags(command, options);
  command.add_option("--config", options.config, "TOML file of settings: the names of these flags without the dashes")
      ->type_name("FILE")
      ->envname("ASHLAR_CONFIG")
      ->group(kLogGroup);
  command.add_flag("--print-config", options.print_config, "Print what holds and where it came from, and end")
      ->group(kLogGroup);
}

}  // namespace

void add_serve_flags(CLI::App& command, ServeOptions& options) {
  options.http.port = 8080;
  command.add_option("--name", options.name, "The model's name in the API (default: its folder's)")
      ->type_name("NAME")
      ->check(CLI::Validator(check_name, ""))
      ->envname("ASHLAR_MODEL_NAME");
  command.add_option("--alias", options.aliases, "Another name that requests may use (repeatable)")
      ->type_name("NAME")
      ->check(CLI::Validator(check_name, ""))
      ->allow_extra_args(false);
  add_network_flags(command, options);
  add_access_flags(command, options);
  add_load_flags(command, options);
  add_log_flags(command, options);
  add_session_flags(command, options.session);
}

}  // namespace ashlar
