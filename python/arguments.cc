// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

namespace py = pybind11;

namespace ashlar {
namespace {

// A value as Python writes it, of bearable length.
std::string said(py::handle value) {
  const py::str text = py::repr(value);
  const py::str most = text[py::slice(0, 100, 1)].cast<py::str>();
  return most.cast<std::string>() + (py::len(text) > py::len(most) ? "..." : "");
}

int32_t whole(py::handle value, const std::string& name) { return as<int32_t>(value, name, "a whole number"); }

int64_t memory_of(py::handle value) {
  if (value.is_none()) return 0;
  const char* expected = "bytes, or something like \"512M\" or \"4G\", at least 1M";
  std::optional<int64_t> bytes;
  if (py::isinstance<py::str>(value)) {
    bytes = llm_bytes(value.cast<std::string>());
  } else {
    bytes = as<int64_t>(value, "kv_memory", expected);
  }
  if (!bytes || *bytes < (1 << 20)) refuse(value, "kv_memory", expected);
  return *bytes;
}

std::map<std::string, double> values_of(py::handle in) {
  if (in.is_none()) return {};
  return as<std::map<std::string, double>>(in, "algorithm_options", "a dict of names and numbers");
}

std::string name_or_none(py::handle in, const char* name) {
  return in.is_none() ? "" : as<std::string>(in, name, "a name");
}

void set_constraint(const py::object& in, LlmParams& out) {
  const auto field = [&in](const char* name) -> py::object { return in.attr(name); };
  if (const py::object schema = field("json_schema"); !schema.is_none()) {
    const py::object text =
        py::isinstance<py::str>(schema) ? schema : py::module_::import("json").attr("dumps")(schema);
    out.json_schema = text.cast<std::string>();
  }
  if (const py::object regex = field("regex"); !regex.is_none()) {
    out.regex = as<std::string>(regex, "regex", "a string");
  }
  if (const py::object rules = field("grammar"); !rules.is_none()) {
    out.grammar = as<std::string>(rules, "grammar", "a string");
  }
  if (const py::object choice = field("choice"); !choice.is_none()) {
    out.choice = as<std::vector<std::string>>(choice, "choice", "a list of strings");
    if (out.choice.empty()) refuse(choice, "choice", "at least one string");
  }
}

}  // namespace

void refuse(py::handle value, const std::string& name, const std::string& expected) {
  throw LlmError("[options] " + name + " is " + said(value) + "; expected " + expected);
}

LlmOptions options_of(const std::string& model, const std::string& drafter, const py::dict& in) {
  const auto number = [&in](const char* name) { return whole(in[name], name); };
  const auto name = [&in](const char* key) { return as<std::string>(in[key], key, "a name"); };
  LlmOptions out;
  out.model = model;
  out.drafter = drafter;
  out.device = name("device");
  out.isa = name_or_none(in["isa"], "isa");
  out.threads = number("threads");
  out.weights = name("weights");
  out.drafter_weights = name("drafter_weights");
  out.kv_dtype = name("kv_dtype");
  out.kv_memory = memory_of(in["kv_memory"]);
  out.max_context = number("max_context");
  out.max_sequences = number("max_sequences");
  out.prefill_chunk = number("prefill_chunk");
  out.prefix_cache = as<bool>(in["prefix_cache"], "prefix_cache", "True or False");
  out.depth = number("depth");
  out.width = number("width");
  out.draft_window = number("draft_window");
  out.branches = number("branches");
  out.ngram_drafts = name("ngram_drafts");
  out.passes = number("passes");
  out.schedule = name("schedule");
  out.algorithm = name_or_none(in["algorithm"], "algorithm");
  out.algorithm_options = values_of(in["algorithm_options"]);
  out.block_size = number("block_size");
  return out;
}

LlmParams params_of(const py::object& in) {
  LlmParams out;
  const auto field = [&in](const char* name) -> py::object { return in.attr(name); };
  const auto real = [&field](const char* name) { return as<double>(field(name), name, "a number"); };
  const auto number = [&field](const char* name) { return whole(field(name), name); };
  out.temperature = real("temperature");
  out.top_k = number("top_k");
  out.top_p = real("top_p");
  out.min_p = real("min_p");
  out.repetition_penalty = real("repetition_penalty");
  out.presence_penalty = real("presence_penalty");
  out.frequency_penalty = real("frequency_penalty");
  if (const py::object bias = field("logit_bias"); !bias.is_none()) {
    for (const auto& [id, value] :
         as<std::map<int32_t, float>>(bias, "logit_bias", "a dict of token ids and numbers")) {
      out.logit_bias.emplace_back(id, value);
    }
  }
  out.seed = as<uint64_t>(field("seed"), "seed", "a whole number from 0 to 2^64 - 1");
  out.scheme = as<std::string>(field("scheme"), "scheme", "coupled or rejection");
  if (!field("logprobs").is_none()) out.logprobs = number("logprobs");
  if (const py::object most = field("max_tokens"); !most.is_none()) {
    out.max_tokens = number("max_tokens");
    if (out.max_tokens < 1) refuse(most, "max_tokens", "at least 1, or None");
  }
  if (const py::object stop = field("stop"); py::isinstance<py::str>(stop)) {
    out.stop = {as<std::string>(stop, "stop", "a string")};
  } else if (!stop.is_none()) {
    out.stop = as<std::vector<std::string>>(stop, "stop", "a string or a list of strings");
  }
  if (const py::object ids = field("stop_token_ids"); !ids.is_none()) {
    out.stop_ids = as<std::vector<int32_t>>(ids, "stop_token_ids", "a list of token ids");
  }
  out.ignore_eos = as<bool>(field("ignore_eos"), "ignore_eos", "True or False");
  out.skip_special_tokens = as<bool>(field("skip_special_tokens"), "skip_special_tokens", "True or False");
  out.width = number("width");
  out.algorithm = name_or_none(field("algorithm"), "algorithm");
  out.algorithm_options = values_of(field("algorithm_options"));
  set_constraint(in, out);
  return out;
}

LlmPrompt prompt_of(py::handle in) {
  if (py::isinstance<py::bytes>(in)) return in.cast<std::string>();
  if (py::isinstance<py::tuple>(in)) {
    auto [messages, tools, variables] = in.cast<std::tuple<std::string, std::string, std::string>>();
    return LlmChat{std::move(messages), std::move(tools), std::move(variables)};
  }
  return as<std::vector<int32_t>>(in, "the prompt", "a list of token ids");
}

}  // namespace ashlar
