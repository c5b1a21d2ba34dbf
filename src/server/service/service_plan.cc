// SPDX-License-Identifier: Apache-2.0
// From what a client asked for to the engine's requests.

#include <openssl/evp.h>

#include <cstring>
#include <random>
#include <utility>

#include "server/service/service.h"
#include "text/tokenizer/model_tokens.h"

namespace ashlar::server {
namespace {

uint64_t random_seed() {
  thread_local std::mt19937_64 random{(uint64_t{std::random_device{}()} << 32) ^ std::random_device{}()};
  return random();
}

// Stop strings that are special tokens: the text has them too late, since the engine would go on until it is cancelled.
std::vector<int32_t> special_stops(const Tokenizer& tokenizer, const std::vector<std::string>& stops) {
  std::vector<int32_t> ids;
  for (const std::string& stop : stops) {
    const std::optional<int32_t> id = tokenizer.token_id(stop);
    if (id && tokenizer.is_special(*id)) ids.push_back(*id);
  }
  return ids;
}

}  // namespace

// Prompts that share cached pages show by their speed what others have asked; different salts never share.
uint64_t Service::salt(const Generation& generation, const HttpRequest& request) const {
  const std::string tenant = tenant_of(request);
  if (tenant.empty() && generation.cache_salt.empty()) return 0;
  const std::string text = salt_key_ + std::to_string(tenant.size()) + ":" + tenant + generation.cache_salt;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  ASHLAR_CHECK(EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) == 1);
  uint64_t out = 0;
  std::memcpy(&out, digest, sizeof out);
  return out == 0 ? 1 : out;
}

// Asked part by part, the engine says which one is at fault.
std::optional<ApiError> Service::check(const MethodChoice& choice) const {
  const Engine& engine = engine_.get();
  std::string message = engine.check(choice);
  if (message.empty()) return std::nullopt;
  std::string field = "dllm";
  if (engine.block_size() > 0 && !engine.check({choice.algorithm, {}}).empty()) {
    field += ".algorithm";
  } else if (engine.block_size() > 0) {
    for (const auto& [key, value] : choice.values) {
      const std::string wrong = engine.check({choice.algorithm, {{key, value}}});
      if (wrong.empty()) continue;
      message = wrong;
      field += "." + for_message(key);
      break;
    }
  }
  return ApiError{400, "invalid_request_error", field + ": " + message, field, "", 0};
}

// As they are asked for, or as speculators' client asks, which has no words for it: the ids of one prompt, which it
// sends as ids, and one token. Others who ask for the ids of a text get them without a file, which would stay.
bool Service::wants_hidden_states(const Generation& generation) const {
  if (generation.hidden_states) return true;
  return options_.hidden != nullptr && generation.return_token_ids && generation.max_tokens == 1 &&
         generation.prompts.size() == 1 && std::holds_alternative<TokenPrompt>(generation.prompts.front()) &&
         generation.n == 1;
}

Parsed<std::vector<AnswerPlan>> Service::plan(const Generation& generation, const Exchange& exchange,
                                              std::vector<std::string>& texts) const {
  if (!model_.answers_to(generation.model)) return model_.not_served(generation.model);
  if (const std::optional<ApiError> wrong = check(generation.choice)) return *wrong;
  if (generation.wants_prompt_logprobs() && !engine_.get().scores_prompts()) {
    const std::string& field = generation.prompt_logprobs_param;
    return ApiError{400,
                    "invalid_request_error",
                    field +
                        ": this model has no log-probabilities of a prompt: what it computes for a token also sees "
                        "tokens after it; ask for those of the answer alone",
                    field,
                    "",
                    0};
  }
  if (generation.hidden_states && options_.hidden == nullptr) {
    const std::string field = "kv_transfer_params";
    return ApiError{400,
                    "invalid_request_error",
                    field + ": hidden states are not available: this server was started without --allow-hidden-states",
                    field,
                    "",
                    0};
  }
  const Parsed<ConstraintMaker> constraints =
      ConstraintMaker::compile(model_, generation, mask_workers_, [&exchange] { return exchange.gone(); });
  if (!constraints) return constraints.error();
  std::vector<AnswerPlan> plans;
  for (size_t p = 0; p < generation.prompts.size(); ++p) {
    const std::string& field = generation.prompt_field;
    Parsed<EncodedPrompt> encoded =
        encoder_.encode(generation.prompts[p], {.field = field, .add_special_tokens = generation.add_special_tokens});
    if (!encoded) return encoded.error();
    EncodedPrompt& prompt = encoded.value();
    const auto size = static_cast<int64_t>(prompt.ids.size());
    if (size == 0) {
      return ApiError{
          400, "invalid_request_error", field + ": the prompt is empty; expected at least one token", field, "", 0};
    }
    const int64_t most = model_.max_positions - (generation.prompt_only() ? 0 : 1);
    if (size > most) {
      return ApiError{400,
                      "invalid_request_error",
                      "the prompt has " + std::to_string(size) + " tokens; the context holds " +
                          std::to_string(model_.max_positions) +
                          (generation.prompt_only() ? ": " : ", one of them for the answer: ") +
                          std::to_string(size - most) + " too many",
                      field,
                      "context_length_exceeded",
                      0};
    }
    if (const auto problem = token_beyond(*model_.tokenizer, prompt.ids, engine_.get().vocab())) {
      return ApiError{400, "invalid_request_error", *problem, field, "", 0};
    }
    // Noise that prompts of one request shared would make equal ones equal answers.
    const uint64_t seed = generation.seed ? *generation.seed : random_seed();
    AnswerPlan plan;
    plan.prompt = static_cast<int32_t>(p);
    plan.starts_in_reasoning = prompt.starts_in_reasoning;
    plan.request.sampling = generation.sampling;
    plan.request.max_tokens = generation.max_tokens.value_or(0);
    plan.request.prompt_only = generation.prompt_only();
    plan.request.prompt_logprobs = generation.prompt_logprobs;
    plan.request.hidden_states = wants_hidden_states(generation);
    plan.request.stop_ids = generation.stop_ids;
    for (const int32_t id : special_stops(*model_.tokenizer, generation.stop)) plan.request.stop_ids.push_back(id);
    if (!generation.ignore_eos) {
      plan.request.stop_ids.insert(plan.request.stop_ids.end(), model_.stop_ids.begin(), model_.stop_ids.end());
    }
    plan.request.width = generation.width;
    plan.request.choice = generation.choice;
    plan.request.salt = salt(generation, exchange.request());
    plan.request.prompt = std::move(prompt.ids);
    for (int32_t i = 0; i < generation.n; ++i) {
      plans.push_back(plan);
      plans.back().request.sampling.seed = choice_seed(seed, i);
      plans.back().request.constraint =
          constraints.value().make(plan.starts_in_reasoning, prompt.may_reason && generation.split_reasoning);
    }
    texts.push_back(std::move(prompt.text));
  }
  return plans;
}

}  // namespace ashlar::server
