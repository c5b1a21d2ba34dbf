#include "model/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "device/weight_source.h"
#include "io/weights/checkpoint.h"

namespace ashlar {
namespace {

struct Architecture {
  const char* name;    ///< general.architecture
  const char* family;  ///< model_type of config.json
  bool interleaved_heads = false;
  bool mixture = false;
  bool windows = false;      ///< some of its layers have one
  bool multipliers = false;  ///< it has those of Granite
};

// llama.cpp rotates adjacent dimensions in models of the first kind, and their converter reorders the rows to suit.
constexpr Architecture kArchitectures[] = {
    {"llama", "llama", true},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"qwen3moe", "qwen3_moe", false, true},
    {"gemma3", "gemma3_text", false, false, true},
    {"smollm3", "smollm3", true},
    {"olmo2", "olmo2"},
    {"granite", "granite", true, false, false, true},
};

constexpr ModelNames kNames = {.embedding = "token_embd",
                               .layers = "blk.",
                               .norm = "output_norm",
                               .head = "output",
                               .rope_factors = "rope_freqs.weight"};
constexpr LayerNames kLayerNames = {.input_norm = "attn_norm",
                                    .post_norm = "ffn_norm",
                                    .mixer_output_norm = "post_attention_norm",
                                    .mlp_output_norm = "post_ffw_norm",
                                    .q = "attn_q",
                                    .k = "attn_k",
                                    .v = "attn_v",
                                    .q_norm = "attn_q_norm",
                                    .k_norm = "attn_k_norm",
                                    .attention_output = "attn_output",
                                    .gate = "ffn_gate",
                                    .up = "ffn_up",
                                    .down = "ffn_down",
                                    .router = "ffn_gate_inp",
                                    .merged_gate = "ffn_gate_exps.weight",
                                    .merged_up = "ffn_up_exps.weight",
                                    .merged_down = "ffn_down_exps.weight"};

struct Translation {
  const char* key;   ///< after "ARCHITECTURE."
  const char* word;  ///< of config.json
  bool required;
};

constexpr Translation kTranslations[] = {
    {"embedding_length", "hidden_size", true},
    {"feed_forward_length", "intermediate_size", true},
    {"block_count", "num_hidden_layers", true},
    {"context_length", "max_position_embeddings", true},
    {"attention.head_count", "num_attention_heads", true},
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"attention.key_length", "head_dim", false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"rope.freq_base", "rope_theta", false},
    {"expert_count", "num_experts", false},
    {"expert_used_count", "num_experts_per_tok", false},
    {"expert_feed_forward_length", "moe_intermediate_size", false},
};

// Keys that change what the layers do, with the only value that is supported.
struct Fixed {
  const char* key;
  double value;
};
constexpr Fixed kFixed[] = {
    {"attention.clamp_kqv", 0},           {"attention.max_alibi_bias", 0},         {"final_logit_softcapping", 0},
    {"expert_shared_count", 0},           {"rope.scaling.yarn_log_multiplier", 0}, {"rope.scaling.attn_factor", 1},
    {"rope.scaling.yarn_attn_factor", 1}, {"rope.scaling.yarn_ext_factor", 1}};

constexpr Translation kMultipliers[] = {{"attention.scale", "attention_multiplier", false},
                                        {"embedding_scale", "embedding_multiplier", false},
                                        {"residual_scale", "residual_multiplier", false},
                                        {"logit_scale", "logits_scaling", false}};

/// The metadata of one architecture.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, const Architecture& architecture)
      : file_(file),
        fields_(file.metadata(), file.path().string(), "gguf"),
        prefix_(std::string(architecture.name) + ".") {}

  const JsonFields& fields() const { return fields_; }
  std::string full(const char* key) const { return prefix_ + key; }
  bool has(const char* key) const {
    if (file_.has_array(full(key))) {
      throw Error("gguf", file_.path().string() + ": \"" + full(key) +
                              "\": expected one value for all layers, found an array (layers that differ are not "
                              "supported)");
    }
    return fields_.has(full(key));
  }
  const Json& raw(const char* key) const { return fields_.raw(full(key)); }
  double number(const char* key, double fallback) const {
    return has(key) ? fields_.number(full(key), -1e30, 1e30) : fallback;
  }

 private:
  const GgufFile& file_;
  JsonFields fields_;
  std::string prefix_;
};

const Architecture& architecture_of(const GgufFile& file) {
  const JsonFields fields(file.metadata(), file.path().string(), "gguf");
  const std::string name = fields.string("general.architecture");
  const auto* found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                   [&name](const Architecture& known) { return name == known.name; });
  if (found != std::end(kArchitectures)) return *found;
  std::string names;
  for (const Architecture& known : kArchitectures) names += (names.empty() ? "" : ", ") + std::string(known.name);
  fields.fail("general.architecture", "one of " + names);
}

// In the new spelling, or as a factor by itself.
Json rope_scaling(const GgufKeys& keys) {
  const std::string type =
      keys.has("rope.scaling.type") ? keys.fields().string(keys.full("rope.scaling.type")) : "none";
  const double old_factor = keys.number("rope.scale_linear", 1);
  if (type == "none" && old_factor != 1) return {{"rope_type", "linear"}, {"factor", old_factor}};
  if (type == "none") return nullptr;
  if (type != "linear" && type != "yarn") {
    keys.fields().fail(keys.full("rope.scaling.type"), "none, linear or yarn");
  }
  Json scaling{{"rope_type", type}, {"factor", keys.raw("rope.scaling.factor")}};
  constexpr std::pair<const char*, const char*> kOptional[] = {
      {"rope.scaling.original_context_length", "original_max_position_embeddings"},
      {"rope.scaling.yarn_beta_fast", "beta_fast"},
      {"rope.scaling.yarn_beta_slow", "beta_slow"}};
  for (const auto& [key, word] : kOptional) {
    if (keys.has(key)) scaling[word] = keys.raw(key);
  }
  return scaling;
}

void check_fixed(const GgufKeys& keys, const Architecture& architecture) {
  const auto require = [&keys](const char* key, double value) {
    if (keys.number(key, value) != value) {
      keys.fields().fail(keys.full(key), "nothing (the model would compute something else)");
    }
  };
  for (const auto& [key, value] : kFixed) require(key, value);
  for (const Translation& multiplier : kMultipliers) {
    if (!architecture.multipliers) require(multiplier.key, 0);
  }
  // Of files with multipliers it says whether there is a rope at all.
  if (architecture.multipliers && !keys.fields().boolean(keys.full("rope.scaling.finetuned"), true)) {
    keys.fields().fail(keys.full("rope.scaling.finetuned"), "true (layers without a rope are not supported)");
  }
  if (!architecture.windows && keys.number("attention.sliding_window", 0) != 0) {
    keys.fields().fail(keys.full("attention.sliding_window"), "nothing (this architecture has no windows here)");
  }
  // Other mixtures of experts go by the name of dense models there.
  if (!architecture.mixture && keys.number("expert_count", 0) != 0) {
    keys.fields().fail(keys.full("expert_count"), "nothing (only qwen3moe has experts here)");
  }
}

// Of Gemma 3, whose files do not say which layers have a window, nor how queries are scaled: by the size of a head, but
// in the largest model, of 62 layers, by hidden / heads.
void add_windows(const GgufKeys& keys, Json& config) {
  constexpr int64_t kLargestLayers = 62;
  constexpr std::pair<const char*, const char*> kOptional[] = {
      {"attention.sliding_window", "sliding_window"},
      {"attention.sliding_window_pattern", "sliding_window_pattern"},
      {"rope.freq_base_swa", "rope_local_base_freq"}};
  for (const auto& [key, word] : kOptional) {
    if (keys.has(key)) config[word] = keys.raw(key);
  }
  config["query_pre_attn_scalar"] = config["head_dim"];
  if (keys.fields().integer(keys.full("block_count"), 1, 1000) != kLargestLayers) return;
  const int64_t heads = keys.fields().integer(keys.full("attention.head_count"), 1, 4096);
  config["query_pre_attn_scalar"] = keys.fields().integer(keys.full("embedding_length"), 1, 1 << 20) / heads;
}

Json config_words(const GgufKeys& keys, const Architecture& architecture, const Checkpoint& checkpoint) {
  Json config{{"model_type", architecture.family}, {"norm_topk_prob", true}, {"eos_token_id", nullptr}};
  for (const auto& [key, word, required] : kTranslations) {
    if (keys.has(key) || required) config[word] = keys.raw(key);
  }
  check_fixed(keys, architecture);
  for (const auto& [key, word, required] : kMultipliers) {
    if (architecture.multipliers && keys.number(key, 0) != 0) config[word] = keys.raw(key);
  }
  // What families make of missing keys is their own.
  if (!keys.has("attention.head_count_kv")) config["num_key_value_heads"] = config["num_attention_heads"];
  const int64_t heads = keys.fields().integer(keys.full("attention.head_count"), 1, 4096);
  const int64_t hidden = keys.fields().integer(keys.full("embedding_length"), 1, 1 << 20);
  if (!keys.has("attention.key_length")) config["head_dim"] = hidden / heads;
  const auto head_dim = config["head_dim"].is_number() ? config["head_dim"].get<double>() : 0;
  for (const char* key : {"attention.value_length", "rope.dimension_count"}) {
    if (keys.number(key, head_dim) != head_dim) {
      keys.fields().fail(keys.full(key), std::to_string(static_cast<int64_t>(head_dim)) + ", the size of a head");
    }
  }
  if (const Json scaling = rope_scaling(keys); !scaling.is_null()) config["rope_scaling"] = scaling;
  if (architecture.windows) add_windows(keys, config);

  const auto embedding = checkpoint.tensors().find(std::string(kNames.embedding) + ".weight");
  if (embedding == checkpoint.tensors().end() || embedding->second->shape.size() != 2) {
    throw Error("gguf", checkpoint.folder().string() +
                            ": has no embedding; expected a tensor token_embd.weight of two "
                            "dimensions (is this the file of a language model?)");
  }
  config["vocab_size"] = embedding->second->shape[0];
  config["tie_word_embeddings"] = !checkpoint.tensors().contains(std::string(kNames.head) + ".weight");
  Json stops = Json::array();
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (!keys.fields().has(key)) continue;
    const Json& id = keys.fields().raw(key);
    if (std::find(stops.begin(), stops.end(), id) == stops.end()) stops.push_back(id);
  }
  if (!stops.empty()) config["eos_token_id"] = stops;
  return config;
}

// What llama.cpp's converter makes of the scaling of Llama 3.
std::vector<float> rope_factors(const StoredTensor& tensor, int32_t count) {
  const auto fail = [&](const std::string& found) {
    throw Error("gguf", tensor.file + ": tensor " + kNames.rope_factors + ": expected F32 [" + std::to_string(count) +
                            "] of positive numbers, found " + found);
  };
  if (tensor.dtype != name_of(Scheme::kF32) || tensor.shape != std::vector<int64_t>{count}) fail(tensor.describe());
  std::vector<float> factors(static_cast<size_t>(count));
  decode_rows({tensor.name, Scheme::kF32, tensor.data, 1, count}, 0, 1, factors.data());
  for (const float factor : factors) {
    if (!(factor > 0) || !std::isfinite(factor)) fail(std::to_string(factor));
  }
  return factors;
}

}  // namespace

ModelConfig read_gguf_config(const std::filesystem::path& file) {
  const Checkpoint checkpoint(file);
  const GgufFile& first = checkpoint.gguf()->files().front();
  const Architecture& architecture = architecture_of(first);
  const GgufKeys keys(first, architecture);
  const Json words = config_words(keys, architecture, checkpoint);
  ModelConfig config = read_config_json(words, file.string() + " (metadata in the words of config.json)");
  config.folder = file;
  config.names = kNames;
  StackConfig& stack = config.stack;
  stack.names = kLayerNames;
  stack.names.interleaved_heads = architecture.interleaved_heads;
  stack.norms_from_one = false;  // the converter has added it
  const auto has_bias = [&](const char* name) {
    return checkpoint.tensors().contains(std::string(kNames.layers) + "0." + name + ".bias");
  };
  stack.qkv_bias = has_bias(kLayerNames.q);
  stack.output_bias = has_bias(kLayerNames.attention_output);
  stack.mlp_bias = has_bias(kLayerNames.up);
  const auto factors = checkpoint.tensors().find(kNames.rope_factors);
  if (factors == checkpoint.tensors().end()) return config;
  for (LayerAttention& layer : stack.layers) {
    if (layer.rope.scaling != RopeConfig::Scaling::kNone) {
      keys.fields().fail(keys.full("rope.scaling.type"),
                         std::string("none, since there is a tensor ") + kNames.rope_factors);
    }
    layer.rope.scaling = RopeConfig::Scaling::kFactors;
    layer.rope.factors = rope_factors(*factors->second, layer.rope.rotary_dim(layer.shape.head_dim) / 2);
  }
  return config;
}

}  // namespace ashlar
