// SPDX-License-Identifier: Apache-2.0
#include "decode/registry.h"

#include "base/error.h"
#include "decode/chain/chain.h"
#include "decode/propose/autoregressive.h"
#include "model/drafters/drafter_repairs.h"
#include "model/drafters/eagle3.h"
#include "model/drafters/mtp.h"
#include "model/drafters/mtp_config.h"

namespace ashlar {
namespace {

void check_autoregressive(const Model& model) {
  if (!model.config().diffusion) return;
  throw Error("decode", model.config().folder.string() +
                            ": fills masked blocks instead of predicting the next token; it works without a drafter, "
                            "by the method block-diffusion");
}

struct Method {
  const char* name;
  std::unique_ptr<Decoder> (*make)(Model& model, const DecoderSpec& spec);
  size_t (*drafter_bytes)(const Model& model, const DecoderSpec& spec) = nullptr;  // null: it has no drafter
  /// As usual_repairs(); null: there are none.
  std::vector<DrafterRepair> (*repairs)(const Model& model, const DecoderSpec& spec,
                                        std::span<const int32_t> mask_tokens) = nullptr;
};

std::unique_ptr<Decoder> make_autoregressive(Model& model, const DecoderSpec&) {
  check_autoregressive(model);
  return std::make_unique<ChainDecoder>(model);
}

std::unique_ptr<Decoder> make_ngram(Model& model, const DecoderSpec& spec) {
  check_autoregressive(model);
  return std::make_unique<ChainDecoder>(model, spec.ngram, spec.ngram_width);
}

// Drafters that are a head: a folder's, or the model's own layer.
std::unique_ptr<DraftHead> load_mtp(const Model& model, const DecoderSpec& spec) {
  if (spec.drafter.empty()) return MtpHead::load(model);
  if (is_mtp_folder(spec.drafter)) return MtpHead::load(model, spec.drafter);
  check_own_layer(spec.drafter, model.config());
  return MtpHead::load(model);
}

std::unique_ptr<DraftHead> load_eagle3(const Model& model, const DecoderSpec& spec) {
  return spec.eagle3_config ? Eagle3Head::load(model, *spec.eagle3_config) : Eagle3Head::load(model, spec.drafter);
}

std::unique_ptr<Proposer> simulated(std::unique_ptr<Proposer> proposer, const DecoderSpec& spec) {
  return spec.simulated ? simulate_drafts(std::move(proposer), spec.simulated) : std::move(proposer);
}

// Most branches that drafts for this model may have.
int32_t branches_for(const Model& model, const DecoderSpec& spec) {
  const int32_t asked = spec.dflash.branches;
  if (!model.is_recurrent()) return asked;
  if (asked == 0 || asked == DflashOptions::kDefaultBranches) return 0;
  throw Error("decode", std::to_string(asked) +
                            " branches of drafts asked for; a model with recurrent layers verifies chains, which 0 "
                            "branches or the default give it");
}

template <std::unique_ptr<DraftHead> (*load)(const Model&, const DecoderSpec&)>
std::unique_ptr<Decoder> make_autoregressive_drafter(Model& model, const DecoderSpec& spec) {
  check_autoregressive(model);
  const AutoregressiveOptions options = {spec.dflash.width, spec.dflash.window, branches_for(model, spec)};
  return std::make_unique<ChainDecoder>(
      model,
      simulated(std::make_unique<AutoregressiveProposer>(spec.method, load(model, spec), model.ops(), options), spec),
      spec.ngram);
}

template <std::unique_ptr<DraftHead> (*load)(const Model&, const DecoderSpec&)>
size_t bytes_of_head(const Model& model, const DecoderSpec& spec) {
  const AutoregressiveOptions options = {spec.dflash.width, spec.dflash.window, 0};
  const std::unique_ptr<DraftHead> head = load(model, spec);
  const bool at_once = head->mask_id() >= 0;  // else a pass a draft
  return head->bytes_read() * static_cast<size_t>(at_once ? 1 : options.max_width() - 1);
}

std::unique_ptr<Decoder> make_dflash(Model& model, const DecoderSpec& spec) {
  check_autoregressive(model);
  branches_for(model, spec);
  auto drafter =
      spec.dflash_config ? DflashDrafter::load(model, *spec.dflash_config) : DflashDrafter::load(model, spec.drafter);
  return std::make_unique<ChainDecoder>(
      model, simulated(std::make_unique<DflashProposer>(std::move(drafter), model.ops(), spec.dflash), spec),
      spec.ngram);
}

template <class Config>
std::vector<DrafterRepair> repairs_of(const Config& config, std::optional<Config> DecoderSpec::*member,
                                      const Model& model, const DecoderSpec& spec,
                                      std::span<const int32_t> mask_tokens) {
  std::vector<DrafterRepair> repairs;
  for (ConfigRepair<Config>& repair : usual_repairs(config, model.config(), mask_tokens)) {
    DecoderSpec repaired = spec;
    repaired.*member = std::move(repair.config);
    repairs.push_back({std::move(repair.setting), std::move(repair.what), std::move(repaired)});
  }
  return repairs;
}

std::vector<DrafterRepair> repair_dflash(const Model& model, const DecoderSpec& spec,
                                         std::span<const int32_t> mask_tokens) {
  return repairs_of(read_dflash_config(spec.drafter), &DecoderSpec::dflash_config, model, spec, mask_tokens);
}

std::vector<DrafterRepair> repair_eagle3(const Model& model, const DecoderSpec& spec,
                                         std::span<const int32_t> mask_tokens) {
  Eagle3Config config = read_eagle3_config(spec.drafter);
  fit_to_target(config, model.config());
  return repairs_of(config, &DecoderSpec::eagle3_config, model, spec, mask_tokens);
}

size_t bytes_of_dflash(const Model& model, const DecoderSpec& spec) {
  return DflashDrafter::load(model, spec.drafter)->bytes_read();
}

std::unique_ptr<Decoder> make_block(Model& model, const DecoderSpec& spec) {
  if (model.is_recurrent()) {
    throw Error("decode", model.config().folder.string() +
                              ": has recurrent layers, whose rows see only what is before them; a method that fills "
                              "blocks in any order needs attention in every layer");
  }
  return std::make_unique<BlockDecoder>(model, spec.block);
}

constexpr Method kMethods[] = {
    {"autoregressive", make_autoregressive},
    {"ngram", make_ngram},
    {"dflash", make_dflash, bytes_of_dflash, repair_dflash},
    {"mtp", make_autoregressive_drafter<load_mtp>, bytes_of_head<load_mtp>},
    {"eagle3", make_autoregressive_drafter<load_eagle3>, bytes_of_head<load_eagle3>, repair_eagle3},
    {"block-diffusion", make_block},
};

const Method& method_of(const Model& model, const DecoderSpec& spec) {
  const std::string own = model.config().diffusion ? "block-diffusion" : "autoregressive";
  const std::string& wanted = spec.method.empty() ? own : spec.method;
  for (const Method& method : kMethods) {
    if (wanted == method.name) return method;
  }
  std::string names;
  for (const std::string& name : decoder_names()) names += (names.empty() ? "" : ", ") + name;
  throw Error("decode", "unknown decoding method '" + spec.method + "'; expected one of " + names);
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(Model& model, const DecoderSpec& spec) {
  std::unique_ptr<Decoder> decoder = method_of(model, spec).make(model, spec);
  for (const int32_t layer : spec.hidden_layers) {
    const int32_t layers = model.config().stack.n_layers;
    if (layer >= 0 && layer < layers) continue;
    throw Error("decode", "hidden states of layer " + std::to_string(layer) + " are asked for; " +
                              model.config().folder.string() + " has layers 0 to " + std::to_string(layers - 1));
  }
  if (!spec.hidden_layers.empty() && !decoder->report_hidden(spec.hidden_layers)) {
    throw Error("decode", model.config().folder.string() +
                              ": has no hidden states of a prompt to report, since tokens are computed again with "
                              "those after them; expected a model that predicts the next token");
  }
  return decoder;
}

std::vector<DrafterRepair> usual_repairs(const Model& model, const DecoderSpec& spec,
                                         std::span<const int32_t> mask_tokens) {
  const Method& method = method_of(model, spec);
  return method.repairs == nullptr ? std::vector<DrafterRepair>{} : method.repairs(model, spec, mask_tokens);
}

std::vector<std::string> decoder_names() {
  std::vector<std::string> names;
  for (const Method& method : kMethods) names.emplace_back(method.name);
  return names;
}

int64_t drafter_bytes_read(const Model& model, const DecoderSpec& spec) {
  for (const Method& method : kMethods) {
    if (spec.method == method.name && method.drafter_bytes != nullptr) {
      return static_cast<int64_t>(method.drafter_bytes(model, spec));
    }
  }
  return 0;
}

}  // namespace ashlar
