// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/head_config.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "device/draft_heads.h"
#include "device/sampling/sampling_params.h"
#include "model/drafters/drafter_config.h"

namespace ashlar {
namespace {

constexpr int64_t kMaxRank = 1 << 14;
constexpr int64_t kMaxLatticeLayers = 64;
constexpr int64_t kMaxMlpRatio = 16;
constexpr int64_t kMaxRounds = 64;
constexpr int32_t kUsualRounds = 6;

/// Values that some heads' checkpoints lack.
struct HeadDefaults {
  int32_t conv_taps = 0, conv_group = 0, rank = 0, top_k = 0;  // 0: there must be one
  const char* markov_type = nullptr;                           // null: there must be one
  bool confidence = false;
  int32_t domino_width = 0, domino_state = 0;  // as the sizes above
  int32_t domino_pure = 0;
  bool domino_from_anchor = false;
  int32_t refiner_ratio = 0;  // as the sizes above
};

// What a head needs to know, from where its checkpoints have it: `inner` first, then `outer`.
class HeadFields {
 public:
  HeadFields(const JsonFields& inner, const JsonFields& outer) : inner_(inner), outer_(outer) {}
  int32_t integer(const std::string& key, int64_t high, int32_t fallback) const {
    const JsonFields& fields = holder(key);
    return static_cast<int32_t>(fallback > 0 ? fields.integer(key, 1, high, fallback) : fields.integer(key, 1, high));
  }
  int32_t count(const std::string& key, int64_t high, int32_t fallback) const {
    return static_cast<int32_t>(holder(key).integer(key, 0, high, fallback));
  }
  std::string string(const std::string& key, const char* fallback) const {
    return fallback != nullptr ? holder(key).string(key, fallback) : holder(key).string(key);
  }
  bool boolean(const std::string& key, bool fallback) const { return holder(key).boolean(key, fallback); }
  double number(const std::string& key, double low, double high) const { return holder(key).number(key, low, high); }
  /// Whether the key is there and says more than that there is none.
  bool is_set(const std::string& key) const {
    const JsonFields& fields = holder(key);
    return fields.has(key) && fields.raw(key) != Json(false) && fields.raw(key) != Json(0);
  }
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const { holder(key).fail(key, expected); }

 private:
  const JsonFields& holder(const std::string& key) const {
    return inner_.has(key) || !outer_.has(key) ? inner_ : outer_;
  }

  const JsonFields& inner_;
  const JsonFields& outer_;
};

void read_plain(const HeadFields&, const HeadDefaults&, DflashConfig&) {}

void read_conv(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config) {
  const BlockConvConfig conv = {
      fields.integer("conv_kernel_size", std::min<int64_t>(config.block_size, kMaxConvTaps), defaults.conv_taps),
      fields.integer("conv_group_size", config.stack.hidden, defaults.conv_group)};
  if (config.stack.hidden % conv.group != 0) {
    fields.fail("conv_group_size", "a divisor of the hidden size, " + std::to_string(config.stack.hidden));
  }
  config.stack.block_conv = conv;
}

void read_dflash2(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config) {
  read_conv(fields, defaults, config);
  if (config.output_multiplier == 0) fields.fail("output_multiplier", "a number other than 0");
  const int64_t most = std::min(config.draft_vocab, kMaxCandidates);
  config.selector = SelectorConfig{fields.integer("selector_rank", kMaxRank, defaults.rank),
                                   fields.integer("selector_top_k", most, defaults.top_k)};
}

void read_lilicorr(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config) {
  if (!fields.boolean("lilicorr_enabled", true)) fields.fail("lilicorr_enabled", "true, or nothing");
  if (fields.is_set("conv_kernel_size") || fields.is_set("conv_group_size")) read_conv(fields, defaults, config);
  if (config.output_multiplier != 1) fields.fail("output_multiplier", "1, with this head");
  if (config.sample_from_anchor) fields.fail("sample_from_anchor", "false, with this head");
  // Sizes bound the memory of what is packed before a tensor is found to have another shape.
  const int64_t most = std::min({config.vocab, kMaxCandidates, kMaxTopLogprobs});
  LatticeConfig lattice;
  lattice.top_k = fields.integer("lilicorr_candidate_topk", most, 0);
  lattice.hidden =
      fields.is_set("lilicorr_hidden_size") ? fields.integer("lilicorr_hidden_size", kMaxRank, 0) : config.stack.hidden;
  lattice.layers = fields.integer("lilicorr_num_layers", kMaxLatticeLayers, 0);
  lattice.heads = fields.integer("lilicorr_num_heads", kMaxRank, 0);
  if (lattice.hidden % lattice.heads != 0) {
    fields.fail("lilicorr_num_heads", "a divisor of the head's hidden size, " + std::to_string(lattice.hidden));
  }
  const double ratio = fields.number("lilicorr_mlp_ratio", 0, kMaxMlpRatio);
  lattice.inner = static_cast<int32_t>(ratio * lattice.hidden);
  if (lattice.inner < 1) fields.fail("lilicorr_mlp_ratio", "a number that leaves the MLP a width");
  lattice.factor = fields.integer("lilicorr_factor_dim", kMaxRank, 0);
  lattice.vector_eps = static_cast<float>(fields.number("lilicorr_vector_eps", 1e-12, 0.5));
  lattice.logit_scale = static_cast<float>(fields.number("lilicorr_logit_scale", 1e-6, 1e6));
  config.lattice = lattice;
}

void read_dspark(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config) {
  MarkovConfig markov;
  markov.rank = fields.integer("markov_rank", kMaxRank, defaults.rank);
  const std::string type = fields.string("markov_head_type", defaults.markov_type);
  if (type != "vanilla" && type != "gated") fields.fail("markov_head_type", R"("vanilla" or "gated")");
  markov.gated = type == "gated";
  if (markov.gated && config.output_multiplier != 1) fields.fail("output_multiplier", "1, with a gated head");
  if (fields.boolean("enable_confidence_head", defaults.confidence)) {
    const bool with_code = fields.boolean("confidence_head_with_markov", defaults.confidence);
    markov.confidence_width = config.stack.hidden + (with_code ? markov.rank : 0);
  }
  config.markov = markov;
  config.may_own_vocabulary = true;
  config.sample_from_anchor = fields.boolean("sample_from_anchor", true);
}

void read_domino(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config) {
  if (config.output_multiplier != 1) fields.fail("output_multiplier", "1, with this head");
  DominoConfig domino;
  const char* const in_speculators = "logits_correction_emb_dim";
  const char* const width = fields.is_set(in_speculators) ? in_speculators : "emb_dim";
  domino.width = fields.integer(width, kMaxRank, defaults.domino_width);
  domino.state = fields.integer("gru_hidden_dim", kMaxRank, defaults.domino_state);
  const int32_t drafts = config.block_size - 1;
  domino.pure = fields.count("pure_draft_prefix_len", drafts, std::min(defaults.domino_pure, drafts));
  const bool from_anchor = fields.boolean("sample_from_anchor", defaults.domino_from_anchor);
  config.sample_from_anchor = fields.boolean("shift_label", from_anchor);
  config.domino = domino;
}

// Speculators says how much wider the MLP is, the method's own checkpoints how wide.
void read_xpress(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config) {
  if (config.output_multiplier != 1) fields.fail("output_multiplier", "1, with this head");
  if (config.block_size > kMaxConvTaps) {
    fields.fail("block_size", "at most " + std::to_string(kMaxConvTaps) + ", with this head");
  }
  const char* const block = "xpress_block_size";
  if (fields.is_set(block) && fields.integer(block, kMaxConvTaps, 0) != config.block_size) {
    fields.fail(block, "the drafter's own, " + std::to_string(config.block_size));
  }
  const bool in_speculators = defaults.refiner_ratio > 0;
  RefinerConfig refiner;
  refiner.rank = fields.integer("xpress_rank", kMaxRank, defaults.rank);
  refiner.inner = in_speculators
                      ? refiner.rank * fields.integer("xpress_mlp_ratio", kMaxMlpRatio, defaults.refiner_ratio)
                      : fields.integer("xpress_mlp_hidden", kMaxRank, 0);
  refiner.rounds = fields.integer(in_speculators ? "num_jacobi_passes" : "xpress_num_passes", kMaxRounds, kUsualRounds);
  config.refiner = refiner;
  config.may_own_vocabulary = true;
}

constexpr HeadDefaults kSpeculatorsDefaults = {2, 16, 256, 16, "vanilla", true, 256, 1024, 1, true, 2};

void design_plain(DflashConfig&) {}

// Sizes of the published ones, down to what a small model has.
void design_dflash2(DflashConfig& config) {
  const HeadDefaults& usual = kSpeculatorsDefaults;
  const int32_t hidden = config.stack.hidden;
  config.stack.block_conv =
      BlockConvConfig{std::min(usual.conv_taps, config.block_size), std::gcd(usual.conv_group, hidden)};
  config.selector = SelectorConfig{std::min(usual.rank, hidden), std::min(usual.top_k, config.vocab)};
}

// The code of speculators' default, with a rating of both; in the slots of the backbone that it may be added to, which
// predict their own position.
void design_dspark(DflashConfig& config) {
  const int32_t rank = std::min(kSpeculatorsDefaults.rank, config.stack.hidden);
  config.markov = MarkovConfig{rank, false, config.stack.hidden + rank};
  config.may_own_vocabulary = true;
}

struct Head {
  const char* name;          // in projector_type and speculators_model_type
  const char* architecture;  // in architectures, where nothing else says it
  void (*read)(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config);
  void (*design)(DflashConfig& config);  // null: is read only
  const char* in_speculators;            // in architectures of that form; null: does not exist there
};

constexpr Head kHeads[] = {
    {"dflash", "DFlashDraftModel", read_plain, design_plain, "DFlashDraftModel"},
    {"dflash2", "DFlash2DraftModel", read_dflash2, design_dflash2, "DFlash2DraftModel"},
    {"dspark", "Qwen3DSparkModel", read_dspark, design_dspark, "DSparkSpeculator"},
    {"lilicorr", "LiLiCorrDraftModel", read_lilicorr, nullptr, nullptr},
    {"domino", "DominoDraftModel", read_domino, nullptr, "DominoDraftModel"},
    {"xpress", "Qwen3XPressModel", read_xpress, nullptr, "XPressSpeculator"},
};

const Head* find_head(const std::string& name) {
  const auto* const head =
      std::find_if(std::begin(kHeads), std::end(kHeads), [&](const Head& known) { return known.name == name; });
  return head == std::end(kHeads) ? nullptr : head;
}

std::string any_of_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : " or \"") + name + '"';
  return text;
}

const Head& head_named(const JsonFields& fields, const char* key, bool in_speculators) {
  const std::string name = fields.string(key);
  std::vector<std::string> known;
  for (const Head& head : kHeads) {
    if (in_speculators && head.in_speculators == nullptr) continue;
    if (name == head.name) return head;
    known.emplace_back(head.name);
  }
  if (in_speculators) known.insert(known.end(), std::begin(kEagle3Types), std::end(kEagle3Types));
  fields.fail(key, any_of_names(known));
}

[[noreturn]] void refuse_architecture(const JsonFields& fields) {
  std::vector<std::string> known;
  for (const Head& head : kHeads) known.emplace_back(head.architecture);
  fields.fail("architectures", any_of_names(known));
}

// z-lab's own checkpoints name their head by the architecture alone, others by a projector. An architecture that ends
// in "ForCausalLM" is that of a network of such layers; any other that is not known may draft in ways that no tensor
// shows.
const Head& zlab_head(const JsonFields& fields, const JsonFields& variant) {
  constexpr const char* kProjector = "projector_type";
  for (const JsonFields* holder : {&variant, &fields}) {
    if (holder->has(kProjector) && holder->raw(kProjector) != Json(false))
      return head_named(*holder, kProjector, false);
  }
  if (fields.has("architectures")) {
    for (const std::string& architecture : fields.strings("architectures")) {
      for (const Head& head : kHeads) {
        if (architecture == head.architecture) return head;
      }
      if (!architecture.ends_with("ForCausalLM")) refuse_architecture(fields);
    }
  }
  return kHeads[0];
}

}  // namespace

std::vector<std::string> draft_heads() {
  std::vector<std::string> names;
  for (const Head& head : kHeads) names.emplace_back(head.name);
  return names;
}

std::string head_of_zlab(const JsonFields& fields, const JsonFields& variant) {
  return zlab_head(fields, variant).name;
}

std::string head_of_speculators(const JsonFields& fields) {
  return head_named(fields, "speculators_model_type", true).name;
}

void read_head(const JsonFields& inner, const JsonFields& outer, MissingValues missing, DflashConfig& config) {
  find_head(config.head)
      ->read({inner, outer}, missing == MissingValues::kRefused ? HeadDefaults{} : kSpeculatorsDefaults, config);
  if ((config.selector || config.lattice) && config.draft_vocab != config.vocab) {
    outer.fail("draft_vocab_size", "the vocabulary of the target, " + std::to_string(config.vocab) +
                                       " (candidates and their codes go by the target's ids)");
  }
}

std::vector<std::string> designed_heads() {
  std::vector<std::string> names;
  for (const Head& head : kHeads) {
    if (head.design != nullptr) names.emplace_back(head.name);
  }
  return names;
}

void add_head(const std::string& name, DflashConfig& config) {
  const auto fail = [&](const std::string& what) { throw Error("drafter", config.folder.string() + ": " + what); };
  const Head* const head = find_head(name);
  if (head == nullptr || head->design == nullptr) fail("the head '" + name + "' is none that drafters are given here");
  if (config.head == name) return;
  if (config.head != kHeads[0].name) {
    fail("has the head '" + config.head + "'; expected '" + name +
         "' or none. Leave --head out to train on what it has");
  }
  config.head = name;
  head->design(config);
}

std::string architecture_of_head(const DflashConfig& config) { return find_head(config.head)->architecture; }

std::string speculators_architecture(const DflashConfig& config) { return find_head(config.head)->in_speculators; }

Json words_of_head(const DflashConfig& config) {
  Json words = Json::object();
  if (const auto& conv = config.stack.block_conv) {
    words["block_size"] = config.block_size;  // where z-lab's own code for convolutions looks for it
    words["conv_kernel_size"] = conv->taps;
    words["conv_group_size"] = conv->group;
  }
  if (config.selector) {
    words["selector_rank"] = config.selector->rank;
    words["selector_top_k"] = config.selector->top_k;
  }
  if (const auto& markov = config.markov) {
    words["markov_rank"] = markov->rank;
    words["markov_head_type"] = markov->gated ? "gated" : "vanilla";
    words["enable_confidence_head"] = markov->confidence_width > 0;
    words["confidence_head_with_markov"] = markov->confidence_width > config.stack.hidden;
    words["sample_from_anchor"] = config.sample_from_anchor;
  }
  return words;
}

}  // namespace ashlar
