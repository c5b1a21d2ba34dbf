// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything that `ashlar serve` can be given.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/serve/idle_learner.h"
#include "app/serve/log.h"
#include "server/http/guard.h"
#include "server/http/http_server.h"
#include "server/service/service.h"
#include "session/session.h"

namespace ashlar {

struct ServeOptions {
  SessionOptions session;
  server::HttpOptions http;
  server::GuardOptions guard;
  server::ServiceOptions service;
  std::string name;                  ///< of the model in the API; empty: the folder's
  std::vector<std::string> aliases;  ///< other names that requests may use
  std::string api_key_file;          ///< a key a line
  double timeout_s = 0;              ///< of a request
  double drain_s = 30;               ///< what runs at SIGTERM may go on for so long
  LogOptions log;
  std::string request_log;  ///< SQLite file; empty: none
  bool log_texts = false;   ///< prompts and answers too
  std::string learn;        ///< folder for the token ids of answered requests; empty: none are kept
  int64_t learn_bytes = int64_t{256} << 20;
  bool learn_idle = false;  ///< trains the drafter on with it while nothing runs
  IdleLearner::Policy learn_policy;
  std::vector<std::string> learn_program;  ///< what calibrates; empty: this program
  std::string hidden_states;               ///< folder for hidden states that requests ask for; empty: they are refused
  int64_t hidden_states_bytes = int64_t{16} << 30;
  std::vector<int32_t> aux_layers;  ///< whose hidden states these are; empty: those that trained drafters read
  std::string config;               ///< TOML file; read before the flags are (app/command_line/config_file.h)
  bool print_config = false;
};

void add_serve_flags(CLI::App& command, ServeOptions& options);

}  // namespace ashlar
