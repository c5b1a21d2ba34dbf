// SPDX-License-Identifier: Apache-2.0
#include "server/api/parse/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "io/client_json.h"

namespace ashlar::server {
namespace {

constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();

/// Names of one value; of several that are sent the last of these counts.
constexpr const char* kPenaltyNames[] = {"repetition_penalty", "repeat_penalty"};

void read_logit_bias(Fields& fields, Reading& reading, SamplingParams& sampling) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  const std::string path = fields.path("logit_bias");
  if (biases->size() > static_cast<size_t>(reading.limits.logit_bias)) {
    fields.fail("logit_bias", "has " + std::to_string(biases->size()) + " entries; at most " +
                                  std::to_string(reading.limits.logit_bias) + " are allowed");
    return;
  }
  for (const auto& [key, value] : biases->items()) {
    int32_t id = -1;
    std::from_chars(key.data(), key.data() + key.size(), id);
    if (id < 0 || std::to_string(id) != key) {
      return reading.fail(path + "." + for_message(key), "expected a token id as the key");
    }
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 1000.0)) {
      return reading.fail(path + "." + key, "expected a number from -1000 to 1000, found " + found(value));
    }
    sampling.logit_bias.emplace_back(id, value.get<float>());
  }
}

/// The penalty is over prompt and answer, so a window of another length asks for another one.
void read_repeat_window(Fields& fields, SamplingParams& sampling) {
  const auto window = fields.integer("repeat_last_n", -1, kMaxCount);
  if (!window || *window == -1 || sampling.repetition_penalty == 1.0) return;
  if (*window == 0) {
    sampling.repetition_penalty = 1.0;
    return;
  }
  fields.fail("repeat_last_n", "the penalty is over prompt and answer; send -1, or 0 to turn it off");
}

void read_sampling(Fields& fields, Reading& reading, Generation& out) {
  const SamplingDefaults& defaults = reading.limits.defaults;
  SamplingParams& sampling = out.sampling;
  sampling.temperature = fields.number("temperature").value_or(defaults.temperature);
  sampling.top_p = fields.number("top_p").value_or(defaults.top_p);
  sampling.top_k = static_cast<int32_t>(fields.integer("top_k", -1, kMaxCount).value_or(defaults.top_k));
  if (sampling.top_k < 0) sampling.top_k = 0;
  sampling.min_p = fields.number("min_p").value_or(defaults.min_p);
  sampling.repetition_penalty = defaults.repetition_penalty;
  for (const char* name : kPenaltyNames) {
    sampling.repetition_penalty = fields.number(name).value_or(sampling.repetition_penalty);
  }
  read_repeat_window(fields, sampling);
  sampling.presence_penalty = fields.number("presence_penalty").value_or(0.0);
  sampling.frequency_penalty = fields.number("frequency_penalty").value_or(0.0);
  // Of no mass the likeliest token alone is kept.
  if (sampling.top_p == 0) {
    sampling.top_p = 1;
    sampling.temperature = std::min(sampling.temperature, 0.0);
  }
  read_logit_bias(fields, reading, sampling);
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min(), kHigh = std::numeric_limits<int64_t>::max();
  for (const char* name : {"seed", "sampling_seed"}) {
    if (const auto seed = fields.integer(name, kLow, kHigh)) out.seed = static_cast<uint64_t>(*seed);
  }
}

void read_stops(Fields& fields, Reading& reading, Generation& out) {
  const ApiLimits& limits = reading.limits;
  for (const char* name : {"stop", "stop_sequences"}) {
    const Json* stop = fields.any(name);
    if (stop == nullptr) continue;
    if (!stop->is_string() || name == std::string_view("stop_sequences")) {
      out.stop = fields.strings(name, limits.stops, limits.stop_bytes);
    } else if (const auto text = fields.string(name, limits.stop_bytes)) {
      if (text->empty()) fields.expect(name, "a string of at least one byte");
      out.stop = {*text};
    }
  }
  if (const Json* ids = fields.array("stop_token_ids", limits.stop_ids)) {
    out.stop_ids = token_ids(*ids, fields.path("stop_token_ids"), reading);
  }
}

/// A longest answer; some clients say -1 for none.
void read_length(Fields& fields, const char* name, Generation& out) {
  const auto count = fields.integer(name, -1, kMaxCount);
  if (!count) return;
  // An empty answer is of use only to those who ask about the prompt.
  if (*count == 0 && !out.echo && !out.wants_prompt_logprobs()) {
    return fields.expect(name, "an integer above 0, or -1 for no limit");
  }
  out.max_tokens = *count < 0 ? std::nullopt : std::optional(static_cast<int32_t>(*count));
}

/// Stops cannot be kept from ending an answer; where there are none, its length is that of the longest.
void read_shortest(Fields& fields, Generation& out) {
  for (const char* name : {"min_tokens", "min_new_tokens"}) {
    const int64_t least = fields.integer(name, 0, kMaxCount).value_or(0);
    if (least == 0) continue;
    if (!out.ignore_eos || !out.stop.empty() || !out.stop_ids.empty()) {
      fields.fail(name, "a shortest length needs \"ignore_eos\": true and no stops here");
    } else if (out.max_tokens && least > *out.max_tokens) {
      fields.fail(name, "is more than the longest answer of " + std::to_string(*out.max_tokens) + " tokens");
    }
  }
}

/// A schema, regular expression or grammar given as text.
std::string read_pattern(Fields& fields, const char* name, Reading& reading) {
  auto text = fields.string(name, reading.limits.schema_bytes);
  if (text && text->empty()) fields.expect(name, "at least one character");
  return text.value_or("");
}

/// Reads json, regex, grammar, choice under these names; empty names are skipped.
struct ConstraintNames {
  const char* json;
  const char* regex;
  const char* grammar;
  const char* choice;
};
int read_named(Fields& fields, const ConstraintNames& names, Reading& reading, Constraint& out) {
  int count = 0;
  if (const Json* schema = fields.any(names.json)) {
    set_schema(*schema, fields.path(names.json), reading, out);
    ++count;
  }
  if (fields.has(names.regex)) {
    out = {Constraint::Kind::kRegex, {}, read_pattern(fields, names.regex, reading), {}, fields.path(names.regex)};
    ++count;
  }
  if (fields.has(names.grammar)) {
    out = {
        Constraint::Kind::kGrammar, {}, read_pattern(fields, names.grammar, reading), {}, fields.path(names.grammar)};
    ++count;
  }
  if (fields.has(names.choice)) {
    const ApiLimits& limits = reading.limits;
    out = {Constraint::Kind::kChoice,
           {},
           {},
           fields.strings(names.choice, limits.choices, limits.schema_bytes),
           fields.path(names.choice)};
    if (out.choices.empty()) fields.expect(names.choice, "at least one string");
    ++count;
  }
  return count;
}

int read_structured(Fields& fields, Reading& reading, Constraint& out) {
  const Json* object = fields.object("structured_outputs");
  if (object == nullptr) return 0;
  Fields nested(*object, fields.path("structured_outputs"), reading);
  int count = read_named(nested, {"json", "regex", "grammar", "choice"}, reading, out);
  if (nested.boolean("json_object").value_or(false)) {
    out.kind = Constraint::Kind::kJsonObject;
    ++count;
  }
  nested.finish();
  if (count != 1) fields.fail("structured_outputs", "expected one of json, regex, grammar, choice, json_object");
  return 1;
}

int read_response_format(Fields& fields, Reading& reading, Constraint& out) {
  const Json* object = fields.object("response_format");
  if (object == nullptr) return 0;
  Fields format(*object, fields.path("response_format"), reading);
  const auto type = format.choice("type", {"text", "json_object", "json_schema"});
  if (!type) {
    format.expect("type", "one of \"text\", \"json_object\", \"json_schema\"");
    return 0;
  }
  if (*type == "json_object") out.kind = Constraint::Kind::kJsonObject;
  if (*type == "json_schema") {
    const Json* inner = format.object("json_schema");
    if (inner == nullptr) {
      format.expect("json_schema", "an object");
      return 0;
    }
    Fields schema(*inner, format.path("json_schema"), reading);
    schema.string("name");
    schema.string("description");
    schema.boolean("strict");
    if (const Json* value = schema.object("schema")) {
      set_schema(*value, schema.path("schema"), reading, out);
    } else {
      schema.expect("schema", "a JSON schema");
    }
    schema.finish();
  }
  format.finish();
  return *type == "text" ? 0 : 1;
}

}  // namespace

void set_schema(const Json& schema, const std::string& path, Reading& reading, Constraint& out) {
  Json value = schema;
  if (schema.is_string()) {
    try {
      value = parse_client_json(schema.get_ref<const std::string&>(), "the schema");
    } catch (const Error& error) {
      return reading.fail(path, for_message(std::string(error.message())));
    }
  }
  if (!value.is_object()) return reading.fail(path, "expected a JSON schema, found " + found(value));
  if (const size_t bytes = value.dump().size(); bytes > static_cast<size_t>(reading.limits.schema_bytes)) {
    return reading.fail(path, "has " + std::to_string(bytes) + " bytes; at most " +
                                  std::to_string(reading.limits.schema_bytes) + " are allowed");
  }
  out.kind = Constraint::Kind::kJsonSchema;
  out.schema = std::move(value);
  out.param = path;
}

void read_choice(Fields& fields, Reading& reading, Generation& out) {
  const Json* object = fields.object("dllm");
  if (object == nullptr) return;
  Fields choice(*object, fields.path("dllm"), reading);
  constexpr size_t kMaxParameters = 32;
  if (object->size() > kMaxParameters) {
    return fields.fail("dllm", "has " + std::to_string(object->size()) + " members; at most " +
                                   std::to_string(kMaxParameters) + " are allowed");
  }
  out.choice.algorithm = choice.string("algorithm", reading.limits.name_bytes).value_or("");
  for (const auto& [key, value] : object->items()) {
    if (key == "algorithm") continue;
    if (key.size() > static_cast<size_t>(reading.limits.name_bytes)) {
      return choice.fail(for_message(key), "is not a parameter of an algorithm");
    }
    if (const auto number = choice.number(key)) out.choice.values[key] = *number;
  }
}

void read_common(Fields& fields, Reading& reading, Generation& out) {
  out.model = fields.string("model").value_or("");
  read_sampling(fields, reading, out);
  read_stops(fields, reading, out);
  out.n = static_cast<int32_t>(fields.integer("n", 1, reading.limits.n).value_or(1));
  out.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  out.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  for (const char* name : {"max_tokens", "n_predict", "max_completion_tokens", "max_output_tokens", "max_new_tokens"}) {
    read_length(fields, name, out);
  }
  read_shortest(fields, out);
  out.stream = fields.boolean("stream").value_or(false);
  if (!fields.boolean("speculative").value_or(true)) out.width = 1;
  read_choice(fields, reading, out);
  out.cache_salt = fields.string("cache_salt", reading.limits.name_bytes).value_or("");
  out.user = fields.string("user").value_or("");
  out.store = fields.boolean("store").value_or(true);
  if (const Json* options = fields.object("stream_options")) {
    Fields nested(*options, fields.path("stream_options"), reading);
    out.include_usage = nested.boolean("include_usage").value_or(false);
    out.usage_in_chunks = nested.boolean("continuous_usage_stats").value_or(false);
    out.stream_blocks = nested.boolean("include_blocks").value_or(false);
    nested.ignore("include_obfuscation");
    nested.finish();
  }
}

void check_generation(Fields& fields, Reading& reading, const Generation& out) {
  const std::string refusal = check_sampling(out.sampling, reading.limits.vocab);
  if (!refusal.empty()) {  // "FIELD is VALUE; expected ..."; the path already names the field
    const size_t end = refusal.find(' ');
    const std::string why = refusal.substr(end + 1);
    std::string name = refusal.substr(0, end);
    if (name == kPenaltyNames[0]) {  // the client looks for the name that it sent
      for (const char* sent : kPenaltyNames) name = fields.has(sent) ? sent : name;
    }
    fields.fail(name, why.starts_with("is ") ? "found " + why.substr(3) : why);
  }
  if (static_cast<int64_t>(out.prompts.size()) * out.n > reading.limits.prompts) {
    reading.fail(fields.path("n"), std::to_string(out.prompts.size()) + " prompts with n = " + std::to_string(out.n) +
                                       " are more than " + std::to_string(reading.limits.prompts) +
                                       " answers; send several requests");
  }
}

void read_constraint(Fields& fields, Reading& reading, Generation& out) {
  int count = read_response_format(fields, reading, out.constraint);
  count += read_structured(fields, reading, out.constraint);
  count +=
      read_named(fields, {"guided_json", "guided_regex", "guided_grammar", "guided_choice"}, reading, out.constraint);
  count += read_named(fields, {"json_schema", "regex", "ebnf", "choice"}, reading, out.constraint);
  // llama.cpp's page sends an empty one where there is none.
  const Json* grammar = fields.any("grammar");
  if (grammar != nullptr && *grammar != Json("")) {
    count += read_named(fields, {"", "", "grammar", ""}, reading, out.constraint);
  }
  if (count <= 1) return;
  for (const char* name : {"structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice",
                           "regex", "ebnf", "json_schema", "grammar"}) {
    if (fields.has(name))
      return fields.fail(name, "only one constraint on the answer is possible; leave the others out");
  }
}

void read_flat_format(const Json& format, const std::string& path, Reading& reading, Generation& out) {
  Fields fields(format, path, reading);
  const auto type = fields.choice("type", {"text", "json_object", "json_schema"});
  if (!type) fields.expect("type", "one of \"text\", \"json_object\", \"json_schema\"");
  fields.string("name");
  fields.string("description");
  fields.boolean("strict");
  const Json* schema = fields.object("schema");
  if (type == "json_object") out.constraint.kind = Constraint::Kind::kJsonObject;
  if (type == "json_schema") {
    if (schema == nullptr) {
      fields.expect("schema", "a JSON schema");
    } else {
      set_schema(*schema, fields.path("schema"), reading, out.constraint);
    }
  }
  fields.finish();
}

void read_template_kwargs(Fields& fields, Reading& reading, ChatPrompt& prompt) {
  const Json* kwargs = fields.object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  const std::string path = fields.path("chat_template_kwargs");
  for (const auto& [name, value] : kwargs->items()) {
    const auto& allowed = reading.limits.template_kwargs;
    const std::string where = path + "." + for_message(name);
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      std::string list;
      for (const std::string& known : allowed) list += (list.empty() ? "" : ", ") + known;
      return reading.fail(where, "is not a variable that requests may set; expected one of " + list);
    }
    if (value.is_structured() || (value.is_string() && value.get_ref<const std::string&>().size() > 256)) {
      return reading.fail(where, "expected a short scalar, found " + found(value));
    }
    if (!value.is_null()) prompt.template_kwargs[name] = value;
  }
}

void set_thinking(bool on, ChatPrompt& prompt) {
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (!prompt.template_kwargs.contains(name)) prompt.template_kwargs[name] = on;
  }
}

void read_thinking(Fields& fields, Reading& reading, ChatPrompt& prompt) {
  const Json* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  Fields nested(*thinking, fields.path("thinking"), reading);
  const auto type = nested.choice("type", {"enabled", "disabled", "adaptive"});
  if (!type) return nested.expect("type", "one of \"enabled\", \"disabled\", \"adaptive\"");
  nested.integer("budget_tokens", 1, INT32_MAX);
  nested.ignore("display");
  if (*type != "adaptive") set_thinking(*type == "enabled", prompt);
  nested.finish();
}

void set_effort(const std::string& effort, ChatPrompt& prompt) {
  set_thinking(effort != "none", prompt);
  if (effort != "none" && !prompt.template_kwargs.contains("reasoning_effort"))
    prompt.template_kwargs["reasoning_effort"] = effort;
}

}  // namespace ashlar::server
