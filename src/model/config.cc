// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/mapped_file.h"
#include "io/weights/gguf.h"
#include "model/families/family.h"
#include "model/gguf/gguf_config.h"

namespace ashlar {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxPositions = int64_t{1} << 24;

RopeConfig::Scaling read_scaling(const JsonFields& rope) {
  const std::string type = rope.string("rope_type", rope.string("type", "default"));
  if (type == "default") return RopeConfig::Scaling::kNone;
  if (type == "linear") return RopeConfig::Scaling::kLinear;
  if (type == "llama3") return RopeConfig::Scaling::kLlama3;
  if (type == "yarn") return RopeConfig::Scaling::kYarn;
  rope.fail(rope.has("rope_type") ? "rope_type" : "type", "default, linear, llama3 or yarn");
}

// Where a file has both spellings the old one counts, if there is anything in it.
const char* rope_key(const JsonFields& fields) {
  const bool old = fields.has("rope_scaling") && fields.raw("rope_scaling") != Json::object();
  return old ? "rope_scaling" : "rope_parameters";
}

constexpr double kAboveOne = 1.0 + 1e-6;
constexpr double kMaxTheta = 1e15;
constexpr double kLargest = 1e9;  // of any factor or length in a rope configuration

void read_scaling_values(const JsonFields& fields, const JsonFields& scaling, RopeConfig& rope) {
  rope.scaling = read_scaling(scaling);
  rope.theta = scaling.number("rope_theta", kAboveOne, kMaxTheta, rope.theta);
  rope.partial_rotary_factor = scaling.number("partial_rotary_factor", 0.0, 1.0, rope.partial_rotary_factor);
  if (rope.scaling == RopeConfig::Scaling::kNone) return;
  rope.factor = scaling.number("factor", 1.0, kLargest);
  if (rope.scaling == RopeConfig::Scaling::kLinear) return;
  // What stands next to the rope counts before what stands in it.
  const char* original = "original_max_position_embeddings";
  const JsonFields& holder = fields.has(original) ? fields : scaling;
  rope.original_max_positions = holder.has(original) ? holder.number(original, 1.0, kLargest)
                                                     : fields.number("max_position_embeddings", 1.0, kLargest);
  if (rope.scaling == RopeConfig::Scaling::kLlama3) {
    rope.low_freq_factor = scaling.number("low_freq_factor", 1e-9, kLargest);
    rope.high_freq_factor = scaling.number("high_freq_factor", 1e-9, kLargest);
    if (!(rope.high_freq_factor > rope.low_freq_factor)) scaling.fail("high_freq_factor", "more than low_freq_factor");
    return;
  }
  rope.beta_fast = scaling.number("beta_fast", 1e-9, kLargest, 32.0);
  rope.beta_slow = scaling.number("beta_slow", 1e-9, kLargest, 1.0);
  rope.truncate = scaling.boolean("truncate", true);
  rope.attention_factor = scaling.number("attention_factor", 0.0, kLargest, 0.0);
  const double scale = scaling.number("mscale", 0.0, kLargest, 0.0);
  const double scale_all = scaling.number("mscale_all_dim", 0.0, kLargest, 0.0);
  if (scaling.has("attention_factor") || scale == 0 || scale_all == 0) return;
  const double growth = 0.1 * std::log(rope.factor);
  rope.attention_factor = (scale * growth + 1) / (scale_all * growth + 1);
}

std::vector<LayerAttention> read_layers(const JsonFields& fields, int32_t n_layers, SlidingLayers sliding,
                                        const LayerAttention& attention) {
  std::vector<LayerAttention> layers(n_layers, attention);
  if (sliding == SlidingLayers::kNone) return layers;
  if (sliding == SlidingLayers::kNamed && fields.has("layer_types")) {
    const std::vector<std::string> types = fields.strings("layer_types");
    if (static_cast<int32_t>(types.size()) != n_layers) {
      fields.fail("layer_types", std::to_string(n_layers) + " entries, one per layer");
    }
    for (int32_t i = 0; i < n_layers; ++i) {
      if (types[i] == "sliding_attention") {
        layers[i].window = static_cast<int32_t>(fields.integer("sliding_window", 1, kMaxPositions));
      } else if (types[i] != "full_attention") {
        fields.fail("layer_types", "full_attention or sliding_attention for each layer");
      }
    }
    return layers;
  }
  if (fields.boolean("use_sliding_window", false)) {
    const auto window = static_cast<int32_t>(fields.integer("sliding_window", 1, kMaxPositions, 4096));
    const int64_t first = sliding == SlidingLayers::kAll
                              ? 0
                              : fields.integer("max_window_layers", 0, 1 << 20, 28);  // as the classes have it
    for (int64_t i = first; i < n_layers; ++i) layers[i].window = window;
  }
  return layers;
}

// What max_position_embeddings means where the rope is scaled: the length of training, which `linear` stretches by its
// factor, and `yarn` from the original length, unless the file counts that in already.
int32_t read_max_positions(const JsonFields& fields, const char* key, const RopeConfig& rope) {
  const int64_t stated = fields.integer(key, 1, kMaxPositions);
  auto positions = static_cast<double>(stated);
  if (rope.scaling == RopeConfig::Scaling::kLinear) positions *= rope.factor;
  if (rope.scaling == RopeConfig::Scaling::kYarn) {
    positions = std::max(positions, rope.original_max_positions * rope.factor);
  }
  if (positions > static_cast<double>(kMaxPositions)) {
    fields.fail(rope_key(fields), "a scaling to at most " + std::to_string(kMaxPositions) + " positions (" + key +
                                      " is " + std::to_string(stated) + ")");
  }
  return static_cast<int32_t>(positions);
}

std::vector<int32_t> read_ids(const JsonFields& fields, const std::string& key, int64_t vocab) {
  if (!fields.has(key)) return {};
  if (fields.raw(key).is_array()) return fields.integers(key, 0, vocab - 1);
  return {static_cast<int32_t>(fields.integer(key, 0, vocab - 1))};
}

// What would change the forward, or what transformers cannot make sense of either.
void check_variants(const JsonFields& fields, const Family& family, StackConfig& stack) {
  if (fields.has("per_layer_config") && fields.raw("per_layer_config") != Json::object()) {
    fields.fail("per_layer_config", "nothing (layers that differ in their sizes are not supported)");
  }
  const bool slides =
      std::any_of(stack.layers.begin(), stack.layers.end(), [](const auto& layer) { return layer.window > 0; });
  if (family.sliding == SlidingLayers::kNamed && slides && !fields.boolean("use_sliding_window", false)) {
    fields.fail("use_sliding_window", "true, since layer_types names sliding layers");
  }
  for (LayerAttention& layer : stack.layers) {
    if (family.rotates_part || layer.rope.partial_rotary_factor == 1.0) continue;
    // Not a setting of these families: their own rope does not read it, and the scaled ones do not work with it.
    if (layer.rope.scaling != RopeConfig::Scaling::kNone) fields.fail("partial_rotary_factor", "1, or nothing");
    layer.rope.partial_rotary_factor = 1.0;
  }
}

}  // namespace

std::string ModelConfig::mtp_prefix() const {
  const std::vector<std::string> all = mtp_prefixes();
  return all.empty() ? "" : all.front();
}

std::vector<std::string> ModelConfig::mtp_prefixes() const {
  if (names.mtp == nullptr) return {};
  if (names.mtp->prefix != nullptr) return {names.mtp->prefix};
  std::vector<std::string> all;
  for (int32_t i = 0; i < std::max(mtp.layers, 1); ++i) {
    all.push_back(names.layers + std::to_string(stack.n_layers + i) + ".");
  }
  return all;
}

bool ModelConfig::is_unused(std::string_view tensor) const {
  const auto begins = [&](std::string_view prefix) { return tensor.starts_with(prefix); };
  return std::ranges::any_of(names.unused, [&](const char* prefix) { return prefix != nullptr && begins(prefix); }) ||
         std::ranges::any_of(mtp_prefixes(), begins);
}

RopeConfig read_rope_config(const JsonFields& fields, double missing_rotary_factor) {
  RopeConfig rope;
  rope.partial_rotary_factor = fields.number("partial_rotary_factor", 0.0, 1.0, missing_rotary_factor);
  rope.theta = fields.number("rope_theta", kAboveOne, kMaxTheta, 10000.0);
  const char* key = rope_key(fields);
  if (!fields.has(key)) return rope;
  const JsonFields parameters = fields.object(key);
  for (const auto& [name, value] : fields.raw(key).items()) {
    if (value.is_object()) parameters.fail(name, "one rope for all layers (a rope per layer kind is not supported)");
  }
  read_scaling_values(fields, parameters, rope);
  return rope;
}

StackConfig read_stack_config(const JsonFields& fields, const ConfigKeys& keys, SlidingLayers sliding) {
  StackConfig stack;
  stack.hidden = static_cast<int32_t>(fields.integer(keys.hidden, 1, kMaxWidth));
  stack.intermediate = static_cast<int32_t>(fields.integer(keys.intermediate, 1, kMaxWidth));
  stack.n_layers = static_cast<int32_t>(fields.integer(keys.layers, 1, 1000));
  LayerAttention attention;
  AttentionShape& shape = attention.shape;
  shape.n_heads = static_cast<int32_t>(fields.integer(keys.heads, 1, 4096));
  shape.n_kv_heads = static_cast<int32_t>(
      fields.integer(keys.kv_heads, 1, 4096, keys.missing_kv_heads > 0 ? keys.missing_kv_heads : shape.n_heads));
  if (shape.n_heads % shape.n_kv_heads != 0) {
    fields.fail(keys.kv_heads, std::string("a divisor of ") + keys.heads + " (" + std::to_string(shape.n_heads) + ")");
  }
  if (!fields.has("head_dim") && keys.missing_head_dim == 0 && stack.hidden % shape.n_heads != 0) {
    fields.fail(keys.hidden, std::string("a multiple of ") + keys.heads);
  }
  shape.head_dim = static_cast<int32_t>(fields.integer(
      "head_dim", 2, kMaxHeadDim, keys.missing_head_dim > 0 ? keys.missing_head_dim : stack.hidden / shape.n_heads));
  if (shape.head_dim % 2 != 0 || shape.head_dim < 2 || shape.head_dim > kMaxHeadDim) {
    fields.fail("head_dim", "an even number from 2 to " + std::to_string(kMaxHeadDim) + " (" + keys.hidden + " / " +
                                keys.heads + " where it is not given)");
  }
  shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  stack.norm_eps = static_cast<float>(fields.number("rms_norm_eps", 0.0, 1.0, 1e-6));
  const std::string usual = keys.gelu ? "gelu_pytorch_tanh" : "silu";
  const std::string activation = fields.string(keys.activation, usual);
  if (activation != usual && !(activation == "swish" && !keys.gelu)) {
    fields.fail(keys.activation, "\"" + usual + "\"");
  }
  if (keys.gelu) stack.activation = Activation::kGelu;
  attention.rope = read_rope_config(fields, keys.missing_rotary_factor);
  const int32_t rotary_dim = attention.rope.rotary_dim(shape.head_dim);
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    fields.fail("partial_rotary_factor",
                "an even number of rotated elements of head_dim " + std::to_string(shape.head_dim));
  }
  stack.layers = read_layers(fields, stack.n_layers, sliding, attention);
  return stack;
}

ModelConfig read_model_config(const std::filesystem::path& model) {
  if (is_gguf(model)) return read_gguf_config(model);
  const auto path = model / "config.json";
  if (!file_exists(path)) {
    throw Error("config",
                model.string() + ": has no config.json; expected a Hugging Face model folder or a .gguf file");
  }
  ModelConfig config = read_config_json(read_json_file(path), path.string());
  config.folder = model;
  const auto generation = model / "generation_config.json";
  if (!file_exists(generation)) return config;
  const Json root = read_json_file(generation);
  const JsonFields fields(root, generation.string(), "config");
  if (fields.has("eos_token_id")) config.stop_ids = read_ids(fields, "eos_token_id", config.vocab);
  return config;
}

ModelConfig read_config_json(const Json& root, const std::string& where) {
  const JsonFields file(root, where, "config");
  const Family* family = find_family(file.string("model_type"));
  if (family == nullptr) file.fail("model_type", "one of " + family_names());
  const bool nested = family->settings != nullptr;
  const Json& stored = nested ? file.raw(family->settings) : root;
  const JsonFields settings = nested ? file.object(family->settings) : file;
  const Json completed = family->complete != nullptr ? family->complete(settings, stored) : Json();
  const Json& own = family->complete != nullptr ? completed : stored;
  const JsonFields fields = family->complete != nullptr ? JsonFields(completed, settings.file(), "config") : settings;
  // Of what concerns the whole checkpoint, the file's own word counts before that of the part.
  const auto holder = [&](const char* key) -> const JsonFields& {
    return root.contains(key) && !root.at(key).is_null() ? file : fields;
  };
  ModelConfig config;
  config.family = family->model_type;
  const auto is_null = [&own](const char* key) { return own.contains(key) && own.at(key).is_null(); };
  ConfigKeys keys = family->keys;
  if (is_null(keys.kv_heads)) keys.missing_kv_heads = 0;
  const bool no_window = is_null("sliding_window") && !fields.has("layer_types");
  config.stack = read_stack_config(fields, keys, no_window ? SlidingLayers::kNone : family->sliding);
  check_variants(fields, *family, config.stack);
  config.vocab = static_cast<int32_t>(fields.integer(keys.vocab, 1, 1 << 24));
  config.max_positions = read_max_positions(fields, keys.max_positions, config.stack.layers[0].rope);
  config.names = family->names;
  if (family->other_names != nullptr) config.other_names = *family->other_names;
  config.stack.names = family->layer_names;
  family->read(fields, config);
  config.tied_head = holder(keys.tied_head).boolean(keys.tied_head, family->tied_by_default);

  const JsonFields& stops = holder("eos_token_id");
  config.stop_ids = read_ids(stops, "eos_token_id", config.vocab);
  const int32_t usual_stop = family->missing_stop_id;
  const bool stated = root.contains("eos_token_id") || own.contains("eos_token_id");
  if (!stated && usual_stop >= 0 && usual_stop < config.vocab) config.stop_ids = {usual_stop};
  return config;
}

}  // namespace ashlar
