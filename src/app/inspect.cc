// SPDX-License-Identifier: Apache-2.0
#include "app/inspect.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "io/mapped_file.h"
#include "io/weights/checkpoint.h"
#include "io/weights/gguf.h"
#include "measure/synth/asked_tensors.h"
#include "model/model.h"
#include "session/memory_budget.h"
#include "session/models/model_locator.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/model_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {
namespace {

bool is_number(const StoredTensor& tensor) { return tensor.dtype.starts_with("F") || scheme_of(tensor); }

// Whether a model has the tensor, without a second copy of a tied head.
bool counts(const ModelConfig& config, const std::string& name) {
  const ModelNames& names = config.names;
  if (config.tied_head && name == std::string(names.head) + ".weight") return false;
  return !config.is_unused(name) && (names.rope_factors == nullptr || name != names.rope_factors);
}

// Counts by shape: what a checkpoint stores under names that begin with `prefix`, without index tables; parameters of
// the tensors that count.
Json weight_facts(const Checkpoint& checkpoint, const std::string& prefix,
                  const std::function<bool(const std::string&)>& counts) {
  int64_t parameters = 0, bytes = 0, tensors = 0;
  std::map<std::string, int64_t> dtypes;
  std::map<std::string, int> files;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (!name.starts_with(prefix)) continue;
    ++tensors;
    bytes += static_cast<int64_t>(tensor->bytes);
    ++files[tensor->file];
    if (!is_number(*tensor) || !counts(name)) continue;
    int64_t count = 1;
    for (const int64_t extent : tensor->shape) count *= extent;
    parameters += count;
    dtypes[tensor->dtype] += count;
  }
  Json by_dtype = Json::object();
  for (const auto& [dtype, count] : dtypes) by_dtype[dtype] = count;
  return {{"parameters", parameters},
          {"parameters_by_dtype", by_dtype},
          {"quantisation", checkpoint.quantisation()},
          {"tensors", tensors},
          {"bytes", bytes},
          {"files", files.size()}};
}

const char* name_of(RopeConfig::Scaling scaling) {
  switch (scaling) {
    case RopeConfig::Scaling::kNone:
      return "none";
    case RopeConfig::Scaling::kLinear:
      return "linear";
    case RopeConfig::Scaling::kLlama3:
      return "llama3";
    case RopeConfig::Scaling::kYarn:
      return "yarn";
    case RopeConfig::Scaling::kFactors:
      return "stored factors";
    case RopeConfig::Scaling::kProportional:
      return "proportional";
  }
  return "?";
}

Json stack_facts(const StackConfig& stack) {
  int32_t sliding = 0, window = 0, bidirectional = 0;
  for (const LayerAttention& layer : stack.layers) {
    if (layer.window > 0) {
      ++sliding;
      window = layer.window;
    }
    if (!layer.causal) ++bidirectional;
  }
  const AttentionShape& shape = stack.layers[0].shape;
  // Layers with a window may have a plainer one.
  const auto whole = std::find_if(stack.layers.begin(), stack.layers.end(),
                                  [](const LayerAttention& layer) { return layer.window == 0; });
  const RopeConfig& rope = (whole == stack.layers.end() ? stack.layers.front() : *whole).rope;
  Json facts{{"layers", stack.n_layers},
             {"hidden", stack.hidden},
             {"feed_forward", stack.intermediate},
             {"heads", shape.n_heads},
             {"kv_heads", shape.n_kv_heads},
             {"head_dim", shape.head_dim},
             {"sliding_layers", sliding},
             {"sliding_window", window},
             {"bidirectional_layers", bidirectional},
             {"rope_theta", rope.theta},
             {"rope_scaling", name_of(rope.scaling)}};
  if (stack.delta_net) {
    const DeltaShape& delta = stack.delta_net->shape;
    facts["delta_net_layers"] = std::count(stack.delta_net->layers.begin(), stack.delta_net->layers.end(), true);
    facts["delta_net_key_heads"] = delta.n_k_heads;
    facts["delta_net_value_heads"] = delta.n_v_heads;
    facts["delta_net_key_dim"] = delta.k_dim;
    facts["delta_net_value_dim"] = delta.v_dim;
  }
  if (stack.short_conv) {
    const auto& layers = stack.short_conv->layers;
    facts["short_conv_layers"] = std::count(layers.begin(), layers.end(), true);
    facts["short_conv_rows"] = stack.short_conv->shape.taps;
  }
  if (stack.moe) {
    const MoeConfig& moe = *stack.moe;
    facts["experts"] = moe.n_experts;
    facts["experts_per_token"] = moe.routing.top_k;
    facts["expert_feed_forward"] = moe.intermediate;
    facts["shared_feed_forward"] = moe.shared_intermediate;
    facts["expert_layers"] = std::count(moe.layers.begin(), moe.layers.end(), true);
  }
  return facts;
}

Json text_facts(const std::filesystem::path& folder, const ModelConfig& config) {
  Json facts;
  try {
    const Tokenizer tokenizer = Tokenizer::from_model(folder);
    int32_t special = 0;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) special += tokenizer.is_special(id) ? 1 : 0;
    facts["tokens"] = tokenizer.vocab_size();
    facts["special_tokens"] = special;
    Json& stops = facts["stop_tokens"] = Json::array();
    for (const int32_t id : stop_ids_of(folder, tokenizer, config.stop_ids, config.vocab)) {
      stops.push_back({{"id", id}, {"token", tokenizer.token_content(id)}});
    }
    if (std::string note = note_on_tokens_beyond(tokenizer, config.vocab); !note.empty()) facts["note"] = note;
  } catch (const Error& error) {
    facts["problem"] = error.what();
  }
  return facts;
}

Json template_facts(const std::filesystem::path& folder) {
  try {
    return {{"chat_template", ChatTemplate::from_model(folder) ? "yes" : "no"}};
  } catch (const Error& error) {
    return {{"chat_template", "unusable"}, {"chat_template_problem", error.what()}};
  }
}

}  // namespace

namespace {

Json drafter_json(const DrafterFacts& drafter) {
  Json facts{{"folder", drafter.folder.string()}, {"method", drafter.method}};
  facts.update(stack_facts(drafter.stack));
  if (drafter.block_size > 0) {
    facts["block_size"] = drafter.block_size;
    facts["mask_token_id"] = drafter.mask_id;
    facts["sample_from_anchor"] = drafter.sample_from_anchor;
  }
  facts["max_width"] = drafter.max_width;
  facts["target_layer_ids"] = drafter.aux_layers;
  facts["vocabulary"] = drafter.vocab;
  facts["draft_vocabulary"] = drafter.draft_vocab;
  facts["own_vocabulary"] = drafter.own_vocabulary;
  if (!drafter.head.empty()) facts["head"] = drafter.head;
  if (drafter.selector) facts["selector"] = {{"candidates", drafter.selector->top_k}, {"rank", drafter.selector->rank}};
  if (const auto& lattice = drafter.lattice) {
    facts["lattice"] = {{"candidates", lattice->top_k}, {"layers", lattice->layers},
                        {"hidden", lattice->hidden},    {"heads", lattice->heads},
                        {"factor", lattice->factor},    {"logit_scale", lattice->logit_scale}};
  }
  if (drafter.markov) {
    facts["markov"] = {{"rank", drafter.markov->rank},
                       {"gated", drafter.markov->gated},
                       {"rates_drafts", drafter.markov->confidence_width > 0}};
  }
  if (const auto& domino = drafter.domino) {
    facts["domino"] = {{"width", domino->width}, {"state", domino->state}, {"pure_drafts", domino->pure}};
  }
  if (const auto& refiner = drafter.refiner) {
    facts["refiner"] = {{"rank", refiner->rank}, {"width", refiner->inner}, {"rounds", refiner->rounds}};
  }
  if (const auto& conv = drafter.stack.block_conv)
    facts["convolution"] = {{"rows", conv->taps}, {"group", conv->group}};
  facts["weights"] = weight_facts(Checkpoint(drafter.folder), drafter.tensors, [](const std::string&) { return true; });
  return facts;
}

}  // namespace

namespace {

// Facts of the configuration, next to which there may be weights.
Json config_facts(const std::filesystem::path& model, const ModelConfig& config) {
  Json report{{"name", folder_name(model)}, {"folder", model.string()}, {"family", config.family}};
  report.update(stack_facts(config.stack));
  if (config.diffusion) {
    report["diffusion"] = {{"block_size", config.diffusion->block_size},
                           {"mask_token_id", config.diffusion->mask_id},
                           {"token_shift", config.diffusion->token_shift},
                           {"sub_block", config.diffusion->sub_block}};
  }
  report["context"] = config.max_positions;
  report["vocabulary"] = config.vocab;
  report["tied_head"] = config.tied_head;
  return report;
}

// A folder whose configuration came without anything else, as of a repository that was cloned without its large files.
bool lacks_weights(const std::filesystem::path& model) {
  if (is_gguf(model) || !file_exists(model / "config.json")) return false;
  std::error_code error;
  const std::filesystem::directory_iterator entries(model, error);
  return !error && std::ranges::none_of(entries, [](const auto& entry) {
    return entry.path().filename().string().ends_with(".safetensors");  // an index names files that are not here
  });
}

// What loading would ask for.
Json expected_weights(const std::filesystem::path& model, const ModelConfig& config) {
  int64_t parameters = 0, tensors = 0;
  for (const AskedTensor& tensor : asked_tensors(model).model) {
    if (!counts(config, tensor.name)) continue;
    parameters += tensor.count();
    ++tensors;
  }
  return {{"parameters", parameters},
          {"parameters_by_dtype", Json::object()},
          {"quantisation", ""},
          {"tensors", tensors},
          {"bytes", 0},
          {"files", 0}};
}

Json inspect_without_weights(const std::filesystem::path& model) {
  const ModelConfig config = read_model_config(model);
  Json report = config_facts(model, config);
  report["weights"] = expected_weights(model, config);
  report["tokenizer"] = text_facts(model, config);
  report.update(template_facts(model));
  report["problem"] =
      "no weights are here (model.safetensors, or shards of it); `ashlar pull ORG/MODEL` fetches a "
      "model, `ashlar synth " +
      model.string() + " -o FOLDER` makes one of this shape with random weights";
  return report;
}

}  // namespace

Json inspect_drafter(const std::filesystem::path& folder) { return drafter_json(drafter_facts(folder)); }

Json inspect_model(const Ops& ops, const std::filesystem::path& model,
                   const std::optional<std::filesystem::path>& drafter, const DflashOptions& drafting,
                   int32_t sequences) {
  if (lacks_weights(model)) return inspect_without_weights(model);
  ModelConfig config = read_model_config(model);
  const Checkpoint checkpoint(model);
  choose_names(config, checkpoint);
  config.tied_head = ties_head(config, checkpoint);
  Json report = config_facts(model, config);
  report["weights"] = weight_facts(checkpoint, "", [&](const std::string& name) { return counts(config, name); });
  report["tokenizer"] = text_facts(model, config);
  report.update(template_facts(model));

  std::optional<DrafterFacts> fitting;
  if (drafter) {
    try {
      fitting = drafter_facts(*drafter, config, drafting, sequences);
      report["drafter"] = drafter_json(drafter_facts(*drafter, config, {}, 1));
      report["drafter"]["fits"] = true;
    } catch (const Error& error) {
      try {
        if (is_drafter_folder(*drafter)) report["drafter"] = inspect_drafter(*drafter);
      } catch (const Error&) {  // the first error says it
      }
      report["drafter"]["folder"] = drafter->string();
      report["drafter"]["fits"] = false;
      report["drafter"]["problem"] = error.what();
    }
  }
  SessionOptions options;
  options.dflash = drafting;
  options.engine.max_sequences = sequences;
  const MemorySituation situation = memory_situation(ops, config, fitting ? &*fitting : nullptr, options);
  const MemoryPlan& plan = situation.plan;
  report["memory"] = {
      {"device", ops.name()},
      {"instruction_set", ops.isa()},
      {"kv_bytes_per_token", plan.target_bytes_per_token},
      {"drafter_kv_bytes_per_token", plan.drafter_bytes_per_token},
      {"drafter_window_bytes", plan.drafter_window_bytes},
      {"drafter_page_bytes", plan.drafter_page_bytes},
      {"branch_bytes", plan.spare_bytes},
      {"state_bytes_per_sequence", plan.state_bytes_of_sequence()},
      {"state_bytes", plan.state_bytes},
      {"page_tokens", kPageTokens},
      {"page_bytes", plan.bytes_per_page},
      {"full_context_pages", (config.max_positions + kPageTokens - 1) / kPageTokens},
      {"full_context_bytes", plan.bytes_of(config.max_positions) - plan.spare_bytes - plan.state_bytes},
      {"weights_bytes", situation.needs.weights},
      {"workspace_bytes", situation.needs.workspace + situation.needs.per_position * config.max_positions},
      {"available_bytes", situation.available.bytes},
      {"container_limit_bytes", situation.available.group_limit},
      {"device_bytes", situation.available.total},
      {"reserved_bytes", situation.available.reserved}};
  try {
    const MemoryBudget budget = budget_memory(situation);
    report["memory"]["cache_bytes"] = budget.kv_bytes;
    report["memory"]["context"] = budget.positions;
    report["memory"]["plan"] = budget.describe();
  } catch (const Error& error) {
    report["memory"]["plan"] = error.message();
  }
  return report;
}

Json self_test_json(const DrafterCheck& check) {
  Json facts{{"steps", check.steps},
             {"first_draft_accepted", check.first_rate()},
             {"mean_acceptance_length", check.mean_length},
             {"expected_at_least", check.threshold()},
             {"suspicious", check.suspicious()},
             {"seconds", check.seconds}};
  if (check.repair) facts["would_draft_with"] = check.repair->what;
  if (check.recorded_first) facts["recorded_first_draft_accepted"] = *check.recorded_first;
  return facts;
}

}  // namespace ashlar
