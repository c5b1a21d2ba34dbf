// SPDX-License-Identifier: Apache-2.0
#include "model/drafters/head_config.h"

#include <algorithm>
#include <iterator>

#include "device/draft_heads.h"

namespace ashlar {
namespace {

constexpr int64_t kMaxRank = 1 << 14;

/// Values that some heads' checkpoints lack.
struct HeadDefaults {
  int32_t conv_taps = 0, conv_group = 0, rank = 0, top_k = 0;  // 0: there must be one
  const char* markov_type = nullptr;                           // null: there must be one
  bool confidence = false;
};

// What a head needs to know, from where its checkpoints have it: `inner` first, then `outer`.
class HeadFields {
 public:
  HeadFields(const JsonFields& inner, const JsonFields& outer) : inner_(inner), outer_(outer) {}
  int32_t integer(const std::string& key, int64_t high, int32_t fallback) const {
    const JsonFields& fields = holder(key);
    return static_cast<int32_t>(fallback > 0 ? fields.integer(key, 1, high, fallback) : fields.integer(key, 1, high));
  }
  std::string string(const std::string& key, const char* fallback) const {
    return fallback != nullptr ? holder(key).string(key, fallback) : holder(key).string(key);
  }
  bool boolean(const std::string& key, bool fallback) const { return holder(key).boolean(key, fallback); }
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const { holder(key).fail(key, expected); }

 private:
  const JsonFields& holder(const std::string& key) const {
    return inner_.has(key) || !outer_.has(key) ? inner_ : outer_;
  }

  const JsonFields& inner_;
  const JsonFields& outer_;
};

void read_plain(const HeadFields&, const HeadDefaults&, DflashConfig&) {}

void read_dflash2(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config) {
  const BlockConvConfig conv = {
      fields.integer("conv_kernel_size", std::min<int64_t>(config.block_size, kMaxConvTaps), defaults.conv_taps),
      fields.integer("conv_group_size", config.stack.hidden, defaults.conv_group)};
  if (config.stack.hidden % conv.group != 0) {
    fields.fail("conv_group_size", "a divisor of the hidden size, " + std::to_string(config.stack.hidden));
  }
  config.stack.block_conv = conv;
  if (config.output_multiplier == 0) fields.fail("output_multiplier", "a number other than 0");
  const int64_t most = std::min(config.draft_vocab, kMaxCandidates);
  config.selector = SelectorConfig{fields.integer("selector_rank", kMaxRank, defaults.rank),
                                   fields.integer("selector_top_k", most, defaults.top_k)};
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

constexpr HeadDefaults kSpeculatorsDefaults = {2, 16, 256, 16, "vanilla", true};

struct Head {
  const char* name;          // in projector_type and speculators_model_type
  const char* architecture;  // in architectures, where nothing else says it
  void (*read)(const HeadFields& fields, const HeadDefaults& defaults, DflashConfig& config);
};

constexpr Head kHeads[] = {
    {"dflash", "DFlashDraftModel", read_plain},
    {"dflash2", "DFlash2DraftModel", read_dflash2},
    {"dspark", "Qwen3DSparkModel", read_dspark},
};

std::string known_heads() {
  std::string names;
  for (const Head& head : kHeads) names += std::string(names.empty() ? "" : " or ") + '"' + head.name + '"';
  return names;
}

const Head& head_named(const JsonFields& fields, const char* key) {
  const std::string name = fields.string(key);
  for (const Head& head : kHeads) {
    if (name == head.name) return head;
  }
  fields.fail(key, known_heads());
}

// z-lab's own checkpoints name their head by the architecture alone, others by a projector.
const Head& zlab_head(const JsonFields& fields, const JsonFields& variant) {
  constexpr const char* kProjector = "projector_type";
  for (const JsonFields* holder : {&variant, &fields}) {
    if (holder->has(kProjector) && holder->raw(kProjector) != Json(false)) return head_named(*holder, kProjector);
  }
  if (fields.has("architectures")) {
    for (const std::string& architecture : fields.strings("architectures")) {
      for (const Head& head : kHeads) {
        if (architecture == head.architecture) return head;
      }
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

std::string head_of_speculators(const JsonFields& fields) { return head_named(fields, "speculators_model_type").name; }

void read_head(const JsonFields& inner, const JsonFields& outer, MissingValues missing, DflashConfig& config) {
  const auto* const head =
      std::find_if(std::begin(kHeads), std::end(kHeads), [&](const Head& known) { return config.head == known.name; });
  head->read({inner, outer}, missing == MissingValues::kRefused ? HeadDefaults{} : kSpeculatorsDefaults, config);
  if (config.selector && config.draft_vocab != config.vocab) {
    outer.fail("draft_vocab_size", "the vocabulary of the target, " + std::to_string(config.vocab) +
                                       " (candidates have codes by the target's ids)");
  }
}

}  // namespace ashlar
