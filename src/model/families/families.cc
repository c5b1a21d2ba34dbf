// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "model/families/family.h"

namespace ashlar {
namespace {

const std::array kFamilies = {
    &kLlamaFamily,      &kQwen2Family,        &kQwen3Family,         &kQwen3MoeFamily, &kQwen35Family,
    &kQwen35TextFamily, &kQwen35MoeFamily,    &kQwen35MoeTextFamily, &kSdarFamily,     &kSdarMoeFamily,
    &kLlada2Family,     &kLlada2VeomniFamily, &kFastDllmFamily,      &kLladaFamily,    &kDreamFamily,
    &kGemma3Family,     &kGemma3TextFamily,   &kMistralFamily,       &kSmolLm3Family,  &kOlmo2Family,
    &kGraniteFamily,    &kGlm4Family,         &kPhi3Family,          &kGptOssFamily,   &kGemma4Family,
    &kGemma4TextFamily, &kQwen3NextFamily,    &kLfm2Family,          &kLfm2MoeFamily,  &kGlm4MoeFamily,
    &kOlmo3Family,      &kMistral3Family,     &kMinistral3Family};

}  // namespace

const Family* find_family(const std::string& model_type) {
  for (const Family* family : kFamilies) {
    if (model_type == family->model_type) return family;
  }
  return nullptr;
}

std::string family_names() {
  std::string names;
  for (const Family* family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family->model_type);
  return names;
}

Json with_defaults(const JsonFields& fields, const Json& settings, const char* defaults) {
  Json own = settings;
  const Json usual = parse_json(defaults, "built in");
  for (const auto& [key, value] : usual.items()) {
    if (!fields.has(key)) own[key] = value;
  }
  return own;
}

Json windows_but_each(int64_t n, int64_t layers) {
  Json types = Json::array();
  for (int64_t i = 1; i <= layers; ++i) types.push_back(i % n == 0 ? "full_attention" : "sliding_attention");
  return types;
}

bool says_rope_theta(const JsonFields& fields) {
  constexpr const char* kTheta = "rope_theta";
  constexpr const char* kRopes = "rope_parameters";
  return fields.has(kTheta) || (fields.has(kRopes) && fields.object(kRopes).has(kTheta));
}

std::vector<bool> read_layers_of_type(const JsonFields& fields, int32_t n_layers, const std::string& special) {
  const std::vector<std::string> types = fields.strings("layer_types");
  if (static_cast<int32_t>(types.size()) != n_layers) {
    fields.fail("layer_types", std::to_string(n_layers) + " entries, one per layer");
  }
  std::vector<bool> layers(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    layers[i] = types[i] == special;
    if (!layers[i] && types[i] != "full_attention") {
      fields.fail("layer_types", "full_attention or " + special + " for each layer");
    }
  }
  return layers;
}

}  // namespace ashlar
