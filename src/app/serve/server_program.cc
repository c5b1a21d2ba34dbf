// SPDX-License-Identifier: Apache-2.0
#include "app/serve/server_program.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "app/sampling_defaults.h"
#include "app/serve/api_keys.h"
#include "app/serve/idle_learning.h"
#include "app/serve/request_log.h"
#include "app/serve/traffic_files.h"
#include "app/train/calibration.h"
#include "base/error.h"
#include "io/durable_folder.h"
#include "io/weights/weights_mark.h"
#include "server/page/page.h"
#include "server/service/routes/routes.h"
#include "session/drafter_check.h"
#include "train/capture/hidden_file.h"
#include "train/run/drafter_design.h"

namespace ashlar {
namespace {

server::ServedModel served_model(Session& session, const ServeOptions& options) {
  server::ServedModel out;
  out.name = options.name.empty() ? folder_name(session.choice().model) : options.name;
  out.folder = session.choice().model.string();
  out.family = session.config().family;
  out.aliases = options.aliases;
  out.tokenizer = &session.tokenizer();
  out.chat_template = session.chat_template();
  out.stop_ids = session.stop_ids();
  out.defaults = read_sampling_defaults(session.choice().model);
  out.max_positions = session.engine().max_positions();  // of whole blocks, where the model fills such
  out.trie = std::make_shared<const grammar::TokenTrie>(session.tokenizer());
  return out;
}

// To microseconds: further digits of a log are noise.
double rounded_s(double seconds) { return std::round(seconds * 1e6) / 1e6; }

// Large bodies and answers get pages of their own, which go back to the system with them; with the default, which
// follows what was freed before, they would not. Few arenas: each keeps what its threads freed.
void limit_kept_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_ARENA_MAX, 4);
}

// A descriptor for each connection, and some for files: many systems allow 1,024 unless a program asks for more.
void allow_descriptors(size_t connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, connections + 512);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);  // where that fails, clients wait until one leaves
}

Json fields_of(const server::RequestRecord& r) {
  Json fields = {{"id", r.id},
                 {"api", r.api},
                 {"status", r.status},
                 {"finish", r.finish},
                 {"prompt", r.usage.prompt_tokens},
                 {"cached", r.usage.cached_tokens},
                 {"tokens", r.usage.completion_tokens},
                 {"accepted", r.accepted},
                 {"drafted", r.drafted},
                 {"first_token_s", rounded_s(r.first_token_s)},
                 {"total_s", rounded_s(r.total_s)}};
  if (!r.error.empty()) fields["error"] = r.error;
  return fields;
}

}  // namespace

struct ServerProgram::Impl {
  explicit Impl(const ServeOptions& given) : options(given), log(given.log) {
    limit_kept_memory();
    allow_descriptors(options.http.max_connections);
    // So that a body of the largest size can be received and read.
    const size_t memory = std::max(options.http.memory->total(), 16 * options.http.max_body_bytes);
    options.http.memory = std::make_shared<server::MemoryBudget>(memory);
    if (!options.api_key_file.empty()) {
      for (std::string& key : read_api_keys(options.api_key_file)) options.guard.api_keys.push_back(std::move(key));
    }
    if (!options.request_log.empty()) {
      requests.emplace(options.request_log, options.log_texts,
                       [this](const std::string& message) { log.write(LogLevel::kWarn, message); });
    }
    if (!options.hidden_states.empty()) {
      options.session.hidden_layers = [this](const ModelConfig& target) { return hidden_layers(target); };
    }
    options.session.engine.max_queue = 1 << 20;  // the service decides who may wait
    session = options.learn_idle ? open_learning() : open_session(options.session);
    if (!session->memory().empty()) log.write(LogLevel::kInfo, "memory: " + session->memory());
    warn_of_shared_memory();
    start_learning();
    start_hidden_states();
    start_service();
    start_http();
    if (options.learn_idle) {
      learning.emplace(IdleLearning::Options{options.learn, options.learn_program, options.learn_policy}, *session,
                       *service, *traffic, log);
    }
  }

  // A calibration is a process of its own, which loads the model once more, with default settings of memory.
  void warn_of_shared_memory() {
    if (!options.learn_idle) return;
    const ModelConfig& config = session->config();
    std::optional<DrafterFacts> drafter;
    if (session->choice().drafter) {
      drafter = drafter_facts(*session->choice().drafter, config, options.session.dflash,
                              options.session.engine.max_sequences);
    }
    SessionOptions as_calibrating;
    as_calibrating.dflash = options.session.dflash;
    const std::string warning =
        warning_about_room(memory_situation(session->ops(), config, drafter ? &*drafter : nullptr, as_calibrating));
    if (!warning.empty()) log.write(LogLevel::kWarn, warning);
  }

  // With the drafter that was learnt last, which may never have served; where it cannot, with the one before it.
  std::unique_ptr<Session> open_learning() {
    const std::string asked = options.session.drafter;
    if (asked == kNgrams || asked == "none") {
      throw Error("learn",
                  "--learn-idle trains a drafter on, and --drafter " + asked + " asks for none; leave one of them out");
    }
    const std::filesystem::path learnt = IdleLearning::drafter_folder(options.learn);
    // Once: what is set aside takes the place of what was before, and the one before it is not tried as new.
    bool may_undo = true;
    while (may_replace(learnt)) {
      options.session.drafter = learnt.string();
      try {
        return open_drafting_session(options.session);
      } catch (const std::exception& error) {
        check_model();  // which may be what is wrong
        if (!may_undo) {
          log.write(LogLevel::kError, "the drafter before it cannot be used either; the next start sets it aside: " +
                                          std::string(message_of(error)));
          break;
        }
        may_undo = false;
        if (!set_aside(learnt, message_of(error))) break;
      }
    }
    options.session.drafter = asked;
    return open_session(options.session);
  }

  void check_model() const {
    SessionOptions plain = options.session;
    plain.drafter = "none";
    plain.quiet = true;
    open_session(plain);
  }

  bool set_aside(const std::filesystem::path& learnt, const std::string& why) {
    log.write(LogLevel::kError, "the drafter that was learnt last cannot be used, and is set aside: " + why);
    try {
      DurableFolder::undo(learnt);
      return true;
    } catch (const std::exception& error) {
      log.write(LogLevel::kError, message_of(error));
      return false;
    }
  }

  // What came after the drafter that was learnt last is new.
  std::filesystem::file_time_type learnt_until() const {
    std::error_code failed;
    const auto time =
        std::filesystem::last_write_time(IdleLearning::drafter_folder(options.learn) / "config.json", failed);
    return failed ? std::filesystem::file_time_type::min() : time;
  }

  // What would keep a calibration from its end is said before the first one.
  void check_learning() {
    CalibrationOptions calibration;
    calibration.traffic = options.learn;
    check_output(calibration);
    try {
      const DurableFolder writable(calibration.folder());
    } catch (const Error& error) {
      log.write(LogLevel::kWarn, "training in idle time would fail now: " + std::string(error.message()));
    }
  }

  void start_learning() {
    if (options.learn.empty()) return;
    TrafficFiles::Options kept{options.learn, options.learn_bytes, weights_mark(session->choice().model)};
    if (options.learn_idle) {
      check_is_trained(*session);
      kept.new_since = learnt_until();
    }
    traffic.emplace(kept, [this](const std::string& message) { log.write(LogLevel::kWarn, message); });
    log.write(LogLevel::kInfo, "token ids of answered requests are kept to train drafters on",
              {{"folder", options.learn}, {"bytes", options.learn_bytes}});
    if (options.learn_idle) check_learning();
  }

  // Those that a drafter trained here reads, and the last one, as trainers have them.
  std::vector<int32_t> hidden_layers(const ModelConfig& target) {
    if (options.aux_layers.empty()) options.aux_layers = default_aux_layers(target.stack.n_layers);
    std::vector<int32_t> layers = options.aux_layers;
    layers.push_back(target.stack.n_layers - 1);
    return layers;
  }

  void start_hidden_states() {
    if (options.hidden_states.empty()) return;
    const HiddenRow row = session->engine().hidden_row();
    const HiddenLayout layout = {weights_mark(session->choice().model), options.aux_layers, row.size};
    hidden.emplace(
        server::HiddenFiles::Options{options.hidden_states, options.hidden_states_bytes, row, metadata_of(layout)});
    log.write(LogLevel::kInfo, "clients may have hidden states of their prompts written",
              {{"folder", options.hidden_states}, {"bytes", options.hidden_states_bytes}, {"layers", row.layers}});
  }

  void start_service() {
    const server::ServedModel model = served_model(*session, options);
    server::ApiLimits limits;
    limits.defaults = model.defaults;
    limits.vocab = session->config().vocab;
    server::ServiceOptions service_options = options.service;
    service_options.description = session->describe();
    service_options.max_sequences = options.session.engine.max_sequences;
    service_options.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
    service_options.memory = options.http.memory;
    service_options.isolate_keys = options.guard.api_keys.size() > 1;
    service_options.keep_texts = options.log_texts;
    service_options.keep_tokens = traffic.has_value();
    service_options.hidden = hidden ? &*hidden : nullptr;
    service_options.on_record = [this](const server::RequestRecord& record) {
      if (requests) requests->add(record);
      if (traffic) traffic->add(record);
      log.write(record.status == 200 ? LogLevel::kInfo : LogLevel::kWarn, "request", fields_of(record));
    };
    service_options.on_ignored_field = [this](const std::string& field) {
      log.write(LogLevel::kWarn, "requests have a field without effect here", {{"field", field}});
    };
    service_options.on_refusal = [this](const server::Refusal& refusal) { report(refusal); };
    service.emplace(session->engine(), model, limits, std::move(service_options));
  }

  // Not the message, which may quote what a user wrote.
  void report(const server::Refusal& refusal) {
    const server::HttpRequest& request = refusal.request;
    Json fields = {{"id", request.id}, {"peer", request.peer}, {"path", request.path}, {"status", refusal.status}};
    if (!refusal.param.empty()) fields["param"] = refusal.param;
    log.write(LogLevel::kWarn, "refused", fields);
  }

  // Of what the service never sees.
  void count_refusal(const server::HttpRequest& request, int status) {
    service->metrics().refused(status);
    report({request, status, ""});
  }

  void start_http() {
    context.service = &*service;
    context.version = ASHLAR_VERSION;
    server::add_routes(router, context);
    // The guard needs to know where the server listens, and the server the guard: a first guard would let no client in.
    server::HttpOptions http_options = options.http;
    http_options.check_head = [this](const server::HttpRequest& request) {
      std::optional<server::HttpResponse> answer = guard->check(request).answer;
      if (answer && answer->status >= 400) count_refusal(request, answer->status);
      return answer;
    };
    http_options.on_refused = [this](const server::HttpRequest& head, int status) { count_refusal(head, status); };
    http.emplace(http_options, [this](const std::shared_ptr<server::Exchange>& exchange) {
      for (const server::Header& header : guard->check(exchange->request()).headers) {
        exchange->add_header(header.name, header.value);
      }
      const int answered = router.handle(exchange);
      if (answered >= 400) count_refusal(exchange->request(), answered);
    });
    context.http = &*http;
    http->listen();
    server::GuardOptions guard_options = options.guard;
    // The page asks for the key itself; its files hold no secret.
    for (const server::PageFile& file : server::page_files()) guard_options.open_paths.emplace_back(file.path);
    guard_options.loopback = http->loopback();
    // A server that was to listen by that name is asked by it.
    if (guard_options.loopback) guard_options.host_names.push_back(host_in_urls());
    if (!guard_options.loopback && guard_options.api_keys.empty()) {
      log.write(LogLevel::kWarn, "no API key is set: everybody who reaches this address may use the server");
    }
    guard.emplace(guard_options);
    http->start();
  }

  std::string host_in_urls() const {
    const std::string& host = options.http.host;
    const bool v6 = host.find(':') != std::string::npos && !host.starts_with("[");
    return v6 ? "[" + host + "]" : host;
  }

  ServeOptions options;
  Log log;
  std::optional<RequestLog> requests;
  std::optional<TrafficFiles> traffic;
  std::unique_ptr<Session> session;
  std::optional<server::HiddenFiles> hidden;
  std::optional<server::Service> service;
  server::RouteContext context;
  server::Router router;
  std::optional<server::Guard> guard;
  std::optional<server::HttpServer> http;  // its threads use all of the above
  std::optional<IdleLearning> learning;    // last: its thread does, too
};

ServerProgram::ServerProgram(const ServeOptions& options) : impl_(std::make_unique<Impl>(options)) {}
ServerProgram::~ServerProgram() = default;

uint16_t ServerProgram::port() const { return impl_->http->port(); }
Log& ServerProgram::log() { return impl_->log; }
std::string ServerProgram::problem() const { return impl_->service->problem(); }
std::string ServerProgram::lost() const { return impl_->service->engine().lost(); }

std::string ServerProgram::address() const {
  return std::string(impl_->options.http.tls_cert_file.empty() ? "http://" : "https://") + impl_->host_in_urls() + ":" +
         std::to_string(port());
}

bool ServerProgram::drain(const std::function<bool()>& hurry) {
  using std::chrono::steady_clock;
  server::Service& service = *impl_->service;
  service.begin_drain();
  if (impl_->learning) impl_->learning->stop();
  const auto deadline =
      steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(impl_->options.drain_s * 1000));
  bool idle = false;
  while (!idle && steady_clock::now() < deadline && !hurry()) {
    idle = service.wait_idle(std::min(deadline, steady_clock::now() + std::chrono::milliseconds(100)));
  }
  const bool clean = service.wait_idle(steady_clock::now());
  while (!service.wait_idle(steady_clock::now() + std::chrono::milliseconds(100))) service.cancel_all();
  // What was made is still on its way to clients that read slowly.
  const auto least = steady_clock::now() + std::chrono::seconds(2);
  const auto most = std::max(least, deadline);
  const auto over = [&] {
    const auto now = steady_clock::now();
    return now >= most || (now >= least && hurry());
  };
  while (!impl_->http->drain(std::min(most, steady_clock::now() + std::chrono::milliseconds(100))) && !over()) {
  }
  return clean;
}

}  // namespace ashlar
