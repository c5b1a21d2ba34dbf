#include "decode/block/rules.h"

#include "base/error.h"
#include "decode/block/rule_makers.h"

namespace ashlar {
namespace {

const std::vector<const RuleKind*>& kinds() {
  static const std::vector<const RuleKind*> all = {&kLowConfidenceRule};
  return all;
}

const RuleKind& find_kind(const std::string& name) {
  std::string names;
  for (const RuleKind* kind : kinds()) {
    if (name.empty() || name == kind->description.name) return *kind;
    names += (names.empty() ? "" : ", ") + std::string(kind->description.name);
  }
  throw Error("decode", "unknown denoising algorithm '" + name + "'; expected one of " + names);
}

std::string plain(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

int32_t most_confident(const BlockView& block, Positions among) {
  int32_t best = -1;
  for (int32_t i = 0; i < block.n; ++i) {
    if (has(among, i) && (best < 0 || block.confidence[i] > block.confidence[best])) best = i;
  }
  return best;
}

std::unique_ptr<UnmaskRule> make_rule(const RuleSpec& spec, int32_t block) {
  const RuleKind& kind = find_kind(spec.name);
  const std::string name = kind.description.name;
  std::map<std::string, double> values;
  std::string keys;
  for (const RuleParameter& parameter : kind.description.parameters) {
    values[parameter.key] = parameter.usual;
    keys += (keys.empty() ? "" : ", ") + std::string(parameter.key);
  }
  for (const auto& [key, value] : spec.values) {
    if (!values.contains(key)) {
      throw Error("decode", "the denoising algorithm " + name + " has no parameter '" + key + "'" +
                                (keys.empty() ? "; it has none" : "; expected one of " + keys));
    }
    values[key] = value;
  }
  for (const RuleParameter& parameter : kind.description.parameters) {
    const double value = values[parameter.key];
    if (!(value >= parameter.least && value <= parameter.most)) {
      throw Error("decode", "the denoising algorithm " + name + ": " + parameter.key + " is " + plain(value) +
                                "; expected " + plain(parameter.least) + " to " + plain(parameter.most));
    }
  }
  return kind.make(values, block);
}

std::vector<RuleDescription> rule_descriptions() {
  std::vector<RuleDescription> descriptions;
  for (const RuleKind* kind : kinds()) descriptions.push_back(kind->description);
  return descriptions;
}

}  // namespace ashlar
