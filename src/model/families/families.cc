#include <array>

#include "model/families/family.h"

namespace ashlar {
namespace {

const std::array kFamilies = {&kLlamaFamily,      &kQwen2Family,      &kQwen3Family,     &kQwen3MoeFamily,
                              &kQwen35Family,     &kQwen35TextFamily, &kQwen35MoeFamily, &kQwen35MoeTextFamily,
                              &kSdarFamily,       &kSdarMoeFamily,    &kLlada2Family,    &kLlada2VeomniFamily,
                              &kFastDllmFamily,   &kLladaFamily,      &kDreamFamily,     &kGemma3Family,
                              &kGemma3TextFamily, &kMistralFamily,    &kSmolLm3Family,   &kOlmo2Family,
                              &kGraniteFamily,    &kGlm4Family,       &kPhi3Family,      &kGptOssFamily,
                              &kGemma4Family,     &kGemma4TextFamily, &kQwen3NextFamily, &kLfm2Family};

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

}  // namespace ashlar
