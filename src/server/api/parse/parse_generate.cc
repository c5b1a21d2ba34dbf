// SPDX-License-Identifier: Apache-2.0
// SGLang's /generate.

#include "server/api/parse/parse.h"
#include "server/api/parse/sampling_fields.h"

namespace ashlar::server {
namespace {

void add_text(const Json& text, const std::string& path, Reading& reading, Generation& out) {
  if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
    return reading.fail(path, "expected a string of at least one character, found " + found(text));
  }
  out.prompts.emplace_back(TextPrompt{text.get<std::string>()});
}

void add_ids(const Json& ids, const std::string& path, Reading& reading, Generation& out) {
  if (!ids.is_array() || ids.empty()) return reading.fail(path, "expected an array of token ids, found " + found(ids));
  out.prompts.emplace_back(TokenPrompt{token_ids(ids, path, reading)});
}

void read_inputs(Fields& fields, Reading& reading, Generation& out) {
  if (fields.has("text") == fields.has("input_ids"))
    return fields.fail("text", "expected exactly one of text and input_ids");
  const char* name = fields.has("text") ? "text" : "input_ids";
  const Json& prompt = *fields.any(name);
  out.prompt_field = fields.path(name);
  const auto add = fields.has("text") ? add_text : add_ids;
  const bool single =
      fields.has("text") ? prompt.is_string() : prompt.is_array() && !prompt.empty() && prompt[0].is_number();
  if (single) return add(prompt, fields.path(name), reading, out);
  out.batched = true;
  const Json* list = fields.array(name, reading.limits.prompts);
  if (list != nullptr && list->empty()) fields.fail(name, "expected at least one prompt");
  for (size_t i = 0; list != nullptr && i < list->size() && reading.ok(); ++i)
    add((*list)[i], at_index(fields.path(name), i), reading, out);
}

void read_one_sampling(const Json& value, const std::string& path, Reading& reading, Generation& out) {
  Fields sampling(value, path, reading);
  sampling.check(Endpoint::kSampling);
  read_common(sampling, reading, out);
  read_constraint(sampling, reading, out);
  check_generation(sampling, reading, out);
  sampling.finish();
}

void read_sampling_params(Fields& fields, Reading& reading, Generation& out) {
  static const Json kNothing = Json::object();
  const Json* value = fields.any("sampling_params");
  const std::string path = fields.path("sampling_params");
  if (value == nullptr || value->is_object())
    return read_one_sampling(value == nullptr ? kNothing : *value, path, reading, out);
  const Json* list = fields.array("sampling_params", reading.limits.prompts);
  if (list == nullptr) return;
  if (list->size() != out.prompts.size()) return fields.fail("sampling_params", "expected one entry a prompt");
  read_one_sampling((*list)[0], at_index(path, 0), reading, out);
  for (size_t i = 1; i < list->size(); ++i) {
    if ((*list)[i] != (*list)[0]) {
      return reading.fail(at_index(path, i),
                          "differs from the first: one request has one set of parameters here; send several requests");
    }
  }
}

void read_ids(Fields& fields, Reading& reading, Generation& out) {
  const Json* rid = fields.any("rid");
  if (rid == nullptr) return;
  const auto max = static_cast<size_t>(reading.limits.name_bytes);
  if (rid->is_string()) {
    out.ids = {fields.string("rid", max).value_or("")};
  } else {
    out.ids = fields.strings("rid", reading.limits.prompts, max);
  }
  if (out.ids.size() != out.prompts.size()) fields.fail("rid", "expected one for each prompt");
}

void read_logprobs(Fields& fields, Reading& reading, Generation& out) {
  const bool logprobs = fields.boolean("return_logprob").value_or(false);
  const auto top = static_cast<int32_t>(fields.integer("top_logprobs_num", 0, reading.limits.top_logprobs).value_or(0));
  const auto start = static_cast<int32_t>(fields.integer("logprob_start_len", -1, INT32_MAX).value_or(-1));
  out.repeated["return_text_in_logprobs"] = fields.boolean("return_text_in_logprobs").value_or(false);
  if (!logprobs && top > 0) fields.fail("top_logprobs_num", "needs \"return_logprob\": true");
  if (!logprobs) return;
  out.sampling.top_logprobs = top;
  out.prompt_logprobs = {start, top};
  out.prompt_logprobs_param = fields.path("logprob_start_len");
}

}  // namespace

Parsed<Generation> parse_generate(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kGenerate);
  Generation out;
  out.max_tokens = 128;  // as the API has it
  read_inputs(fields, reading, out);
  read_logprobs(fields, reading, out);
  if (reading.ok()) read_sampling_params(fields, reading, out);
  out.model = fields.string("model").value_or("");
  out.split_reasoning = false;
  out.stream = fields.boolean("stream").value_or(false);
  if (!fields.boolean("speculative").value_or(true)) out.width = 1;
  read_choice(fields, reading, out);
  out.cache_salt = fields.string("cache_salt", limits.name_bytes).value_or("");
  read_ids(fields, reading, out);
  fields.finish();
  if (reading.error) return std::move(*reading.error);
  return out;
}

}  // namespace ashlar::server
