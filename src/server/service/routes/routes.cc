// SPDX-License-Identifier: Apache-2.0
#include "server/service/routes/routes.h"

#include <utility>

#include "base/clock.h"
#include "server/api/openapi.h"
#include "server/api/parse/parse.h"
#include "server/api/wire.h"
#include "server/page/page.h"

namespace ashlar::server {

HttpResponse json_response(const Json& value, int status) {
  return {status, "application/json", value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", {}};
}

namespace {

Json model_entry(const ServedModel& model) {
  return {{"id", model.name},     {"object", "model"},  {"created", 0},
          {"owned_by", "ashlar"}, {"root", model.name}, {"max_model_len", model.max_positions}};
}

// Routes about prompts: parse on a worker, answer with what `respond` makes of it, or a refusal in the shape of `api`.
template <class T>
void add_work(Router& router, RouteContext& context, const char* path,
              Parsed<T> (*parse)(const Json&, const ApiLimits&), Parsed<HttpResponse> (*respond)(Service&, const T&),
              Api api = Api::kChat) {
  router.add("POST", path,
             [&context, parse, respond, api](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
               Service& service = *context.service;
               service.work(exchange, api, [&service, exchange, parse, respond]() -> Parsed<HttpResponse> {
                 const Parsed<Json> body = parse_body(exchange->request().body);
                 if (!body) return body.error();
                 const Parsed<T> parsed = parse(body.value(), service.limits());
                 if (!parsed) return parsed.error();
                 const ServedModel& model = service.model();
                 if (!model.answers_to(parsed.value().model)) return model.not_served(parsed.value().model);
                 return respond(service, parsed.value());
               });
             });
}

Parsed<HttpResponse> count_tokens(Service& service, const PromptRequest& request) {
  const Parsed<EncodedPrompt> encoded =
      service.encoder().encode(request.prompt, {.field = request.prompt_field, .must_fit = false});
  if (!encoded) return encoded.error();
  return json_response({{"input_tokens", encoded.value().ids.size()}});
}

// Written as text: a tree of millions of values would take ten times as much.
Parsed<HttpResponse> tokenize(Service& service, const PromptRequest& request) {
  const Parsed<EncodedPrompt> encoded =
      service.encoder().encode(request.prompt, {.field = request.prompt_field,
                                                .add_special_tokens = request.add_special_tokens,
                                                .parse_special = request.parse_special,
                                                .must_fit = false});
  if (!encoded) return encoded.error();
  const std::vector<int32_t>& ids = encoded.value().ids;
  std::string body = "{\"tokens\":[";
  for (const int32_t id : ids) body.append(std::to_string(id)) += ',';
  if (!ids.empty()) body.pop_back();
  body += "],\"count\":" + std::to_string(ids.size()) +
          ",\"max_model_len\":" + std::to_string(service.model().max_positions);
  if (request.with_pieces) {
    body += ",\"token_strs\":[";
    for (const int32_t id : ids) (body += to_line(std::string(service.model().tokenizer->token_content(id)))) += ',';
    if (!ids.empty()) body.pop_back();
    body += ']';
  }
  return HttpResponse{200, "application/json", std::move(body += "}\n"), {}};
}

Parsed<HttpResponse> detokenize(Service& service, const DetokenizeRequest& request) {
  const std::string text = service.model().tokenizer->decode(request.ids, false);
  return json_response({{"prompt", text}, {"content", text}});
}

Parsed<HttpResponse> apply_template(Service& service, const PromptRequest& request) {
  const Parsed<std::string> text = service.encoder().render(std::get<ChatPrompt>(request.prompt), request.prompt_field);
  if (!text) return text.error();
  return json_response({{"prompt", text.value()}});
}

// What the page shows, as numbers.
Json figures(Service& service, const RouteContext& context) {
  const EngineCounters c = service.engine().counters();
  const ServingEngine::Facts engine = service.engine().facts();
  return {
      {"model", service.model().name},
      {"description", engine.description},
      {"version", context.version},
      {"context", service.model().max_positions},
      {"decoder", engine.decoder_name},
      {"max_width", engine.max_width},
      {"block", engine.block_size},
      {"running", c.running},
      {"waiting", c.waiting},
      {"pages", {{"total", c.pages_total}, {"held", c.pages_held}, {"cached", c.pages_cached}, {"free", c.pages_free}}},
      {"prompt_tokens", c.prefill_tokens + c.cached_tokens},
      {"cached_tokens", c.cached_tokens},
      {"generated_tokens", c.generated_tokens},
      {"drafted", c.drafted},
      {"accepted", c.accepted},
      {"verify_spans", c.verify_spans},
      {"decided", c.decided},
      {"blocks", c.blocks}};
}

void add_answers(Router& router, RouteContext& context) {
  constexpr std::pair<const char*, Api> kPaths[] = {
      {"/v1/chat/completions", Api::kChat},   {"/v1/completions", Api::kCompletions},
      {"/v1/responses", Api::kResponses},     {"/v1/messages", Api::kMessages},
      {"/generate", Api::kGenerate},          {"/api/chat", Api::kOllamaChat},
      {"/api/generate", Api::kOllamaGenerate}};
  for (const auto& [path, api] : kPaths) {
    router.add("POST", path, [&context, api = api](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
      context.service->answer(exchange, api);
    });
  }
}

void add_models(Router& router, RouteContext& context) {
  router.add("GET", "/v1/models", [&context](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    exchange->respond(
        json_response({{"object", "list"}, {"data", Json::array({model_entry(context.service->model())})}}));
  });
  // What SGLang's client asks first.
  router.add("GET", "/get_model_info", [&context](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    const std::string& name = context.service->model().name;
    exchange->respond(json_response({{"model_path", name}, {"tokenizer_path", name}, {"is_generation", true}}));
  });
  router.add("GET", "/v1/models/{id...}",
             [&context](const std::shared_ptr<Exchange>& exchange, const PathParameters& parameters) {
               const std::string& id = parameters["id"];
               const ServedModel& model = context.service->model();
               if (!model.answers_to(id)) return context.service->refuse(exchange, Api::kChat, model.not_served(id));
               exchange->respond(json_response(model_entry(model)));
             });
}

void add_figures(Router& router, RouteContext& context) {
  router.add("GET", "/health", [&context](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    const std::string problem = context.service->problem();
    if (!problem.empty()) return exchange->respond(json_response({{"status", problem}}, 503));
    Json body = {{"status", "ok"}};
    const std::string busy = context.service->busy();
    if (!busy.empty()) body["busy"] = busy;  // a server that has much to do must not be taken for a dead one
    return exchange->respond(json_response(body));
  });
  router.add("GET", "/metrics", [&context](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    Service& of = *context.service;
    exchange->respond(
        {200,
         "text/plain; version=0.0.4; charset=utf-8",
         of.metrics().write(of.model().name, of.engine().counters(), context.http->counters(), of.preparing()),
         {}});
  });
  router.add("GET", "/version", [&context](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    exchange->respond(json_response({{"version", context.version}}));
  });
  router.add("GET", "/stats", [&context](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    exchange->respond(json_response(figures(*context.service, context)));
  });
}

// The same for everybody, and a hundred schemas to put together.
const HttpResponse& openapi_answer() {
  static const HttpResponse kAnswer = [] {
    std::vector<OpenFile> files;
    for (const PageFile& file : page_files()) files.push_back({file.path, file.content_type});
    return json_response(openapi_document(files));
  }();
  return kAnswer;
}

}  // namespace

void add_routes(Router& router, RouteContext& context) {
  add_answers(router, context);
  add_models(router, context);
  add_work<PromptRequest>(router, context, "/v1/messages/count_tokens", parse_count_tokens, count_tokens,
                          Api::kMessages);
  add_work<PromptRequest>(router, context, "/tokenize", parse_tokenize, tokenize);
  add_work<DetokenizeRequest>(router, context, "/detokenize", parse_detokenize, detokenize);
  add_work<PromptRequest>(router, context, "/apply-template", parse_apply_template, apply_template);
  add_ollama_routes(router, context);
  add_figures(router, context);
  router.add("GET", "/openapi.json", [](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    exchange->respond(openapi_answer());
  });
  for (const PageFile& file : page_files()) {
    router.add("GET", std::string(file.path),
               [&file](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
                 exchange->respond({200, std::string(file.content_type), std::string(file.content), page_headers()});
               });
  }
}

}  // namespace ashlar::server
