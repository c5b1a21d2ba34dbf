// SPDX-License-Identifier: Apache-2.0
// What Ollama's clients ask about models: the one that is served, as if it had been pulled.

#include <openssl/evp.h>

#include <ctime>

#include "server/api/parse/parse.h"
#include "server/service/routes/routes.h"

namespace ashlar::server {
namespace {

// Of the Ollama whose API this follows: clients look for what they need by it.
constexpr const char* kOllamaVersion = "0.13.0";
// A model that is loaded stays so; Ollama's own word for that is a time far away.
constexpr const char* kNever = "2318-01-01T00:00:00Z";

// As Ollama names what has no tag.
std::string tagged(const std::string& name) { return name.find(':') == std::string::npos ? name + ":latest" : name; }

// Stands for the weights, which are not read for it: of the same name, the same.
std::string digest_of(const std::string& name) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  ASHLAR_CHECK(EVP_Digest(name.data(), name.size(), bytes, &size, EVP_sha256(), nullptr) == 1);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

Json details_of(const ServedModel& model) {
  return {{"parent_model", ""},     {"format", "safetensors"},
          {"family", model.family}, {"families", Json::array({model.family})},
          {"parameter_size", ""},   {"quantization_level", ""}};
}

Json entry_of(const ServedModel& model) {
  const std::string name = tagged(model.name);
  return {
      {"name", name}, {"model", name}, {"size", 0}, {"digest", digest_of(model.name)}, {"details", details_of(model)}};
}

Json tags(const ServedModel& model) {
  Json entry = entry_of(model);
  entry["modified_at"] = "1970-01-01T00:00:00Z";
  return {{"models", Json::array({std::move(entry)})}};
}

Json running(const ServedModel& model) {
  Json entry = entry_of(model);
  entry.update({{"expires_at", kNever}, {"size_vram", 0}, {"context_length", model.max_positions}});
  return {{"models", Json::array({std::move(entry)})}};
}

std::string parameters_of(const SamplingDefaults& defaults) {
  const Json values = {{"temperature", defaults.temperature},
                       {"top_k", defaults.top_k},
                       {"top_p", defaults.top_p},
                       {"min_p", defaults.min_p},
                       {"repeat_penalty", defaults.repetition_penalty}};
  std::string out;
  for (const auto& [name, value] : values.items()) {
    out.append(out.empty() ? "" : "\n").append(name).append(" ").append(value.dump());
  }
  return out;
}

Json about(const ServedModel& model) {
  Json capabilities = Json::array({"completion"});
  if (model.chat_template != nullptr) capabilities.push_back("tools");
  if (model.chat_template != nullptr && model.chat_template->thinks()) capabilities.push_back("thinking");
  return {{"license", ""},
          {"modelfile", ""},
          {"parameters", parameters_of(model.defaults)},
          {"template", ""},
          {"details", details_of(model)},
          {"model_info",
           {{"general.architecture", model.family},
            {"general.basename", model.name},
            {model.family + ".context_length", model.max_positions}}},
          {"capabilities", std::move(capabilities)},
          {"modified_at", "1970-01-01T00:00:00Z"}};
}

void add_get(Router& router, RouteContext& context, const char* path, Json (*answer)(const ServedModel&)) {
  router.add("GET", path, [&context, answer](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    exchange->respond(json_response(answer(context.service->model())));
  });
}

}  // namespace

void add_ollama_routes(Router& router, RouteContext& context) {
  add_get(router, context, "/api/tags", tags);
  add_get(router, context, "/api/ps", running);
  add_get(router, context, "/api/version", [](const ServedModel&) -> Json { return {{"version", kOllamaVersion}}; });
  router.add("POST", "/api/show", [&context](const std::shared_ptr<Exchange>& exchange, const PathParameters&) {
    Service& service = *context.service;
    service.work(exchange, Api::kOllamaChat, [&service, exchange]() -> Parsed<HttpResponse> {
      const Parsed<Json> body = parse_body(exchange->request().body);
      if (!body) return body.error();
      const Parsed<ModelRequest> request = parse_ollama_show(body.value(), service.limits());
      if (!request) return request.error();
      const ServedModel& model = service.model();
      if (!model.answers_to(request.value().model)) return model.not_served(request.value().model);
      return json_response(about(model));
    });
  });
}

}  // namespace ashlar::server
