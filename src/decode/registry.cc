#include "decode/registry.h"

#include "base/error.h"
#include "decode/chain/chain.h"

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
};

std::unique_ptr<Decoder> make_autoregressive(Model& model, const DecoderSpec&) {
  check_autoregressive(model);
  return std::make_unique<ChainDecoder>(model);
}

std::unique_ptr<Decoder> make_ngram(Model& model, const DecoderSpec& spec) {
  check_autoregressive(model);
  return std::make_unique<ChainDecoder>(model, spec.ngram, spec.ngram_width);
}

std::unique_ptr<Decoder> make_dflash(Model& model, const DecoderSpec& spec) {
  check_autoregressive(model);
  constexpr int32_t kDefault = DflashOptions::kDefaultBranches;
  if (model.is_recurrent() && spec.dflash.branches != kDefault && spec.dflash.branches != 0) {
    throw Error("decode", std::to_string(spec.dflash.branches) +
                              " branches of drafts asked for; a model with recurrent layers verifies chains, which 0 "
                              "branches or the default give it");
  }
  auto drafter = DflashDrafter::load(model, spec.drafter);
  return std::make_unique<ChainDecoder>(
      model, std::make_unique<DflashProposer>(std::move(drafter), model.ops(), spec.dflash), spec.ngram);
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
    {"dflash", make_dflash},
    {"block-diffusion", make_block},
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(Model& model, const DecoderSpec& spec) {
  const std::string own = model.config().diffusion ? "block-diffusion" : "autoregressive";
  const std::string& wanted = spec.method.empty() ? own : spec.method;
  for (const Method& method : kMethods) {
    if (wanted == method.name) return method.make(model, spec);
  }
  std::string names;
  for (const std::string& name : decoder_names()) names += (names.empty() ? "" : ", ") + name;
  throw Error("decode", "unknown decoding method '" + spec.method + "'; expected one of " + names);
}

std::vector<std::string> decoder_names() {
  std::vector<std::string> names;
  for (const Method& method : kMethods) names.emplace_back(method.name);
  return names;
}

std::string method_of_drafter(const std::filesystem::path& folder) {
  if (is_dflash_folder(folder)) return "dflash";
  throw Error("drafter", folder.string() +
                             ": is not a drafter this engine knows; expected a DFlash folder, whose config.json has "
                             "dflash_config or speculators_model_type");
}

}  // namespace ashlar
