#include "decode/block/rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "decode/block/rule_makers.h"

namespace ashlar {
namespace {

const std::vector<const RuleKind*>& kinds() {
  static const std::vector<const RuleKind*> all = {
      &kLowConfidenceRule,  &kStaticRule,    &kSequentialRule, &kEntropyBoundRule, &kEntropyBoundedRule, &kFactorRule,
      &kJointThresholdRule, &kHierarchyRule, &kKlassRule,      &kCreditRule,       &kS2d2Rule,
  };
  return all;
}

// low_confidence, LowConfidence and low-confidence are one name.
std::string letters(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c != '_' && c != '-') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return out;
}

bool is_named(const RuleDescription& rule, const std::string& wanted) {
  if (letters(rule.name) == wanted) return true;
  return std::any_of(rule.also.begin(), rule.also.end(), [&](const char* name) { return letters(name) == wanted; });
}

const RuleKind& find_kind(const std::string& name) {
  std::string names;
  for (const RuleKind* kind : kinds()) {
    if (name.empty() || is_named(kind->description, letters(name))) return *kind;
    names += (names.empty() ? "" : ", ") + std::string(kind->description.name);
  }
  throw Error("decode", "unknown denoising algorithm '" + name + "'; expected one of " + names);
}

std::string plain(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// Every parameter with the value that holds. Throws where one is unknown or out of range.
std::map<std::string, double> values_of(const RuleDescription& rule, const RuleSpec& spec) {
  std::map<std::string, double> values;
  for (const RuleParameter& parameter : rule.parameters) values[parameter.key] = parameter.usual;
  for (const auto& [key, value] : spec.values) {
    const std::string problem = problem_with(rule, key, value);
    if (!problem.empty()) throw Error("decode", "the denoising algorithm " + std::string(rule.name) + problem);
    values[key] = value;
  }
  return values;
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
  return kind.make(values_of(kind.description, spec), block);
}

std::vector<RuleDescription> rule_descriptions() {
  std::vector<RuleDescription> descriptions;
  for (const RuleKind* kind : kinds()) descriptions.push_back(kind->description);
  return descriptions;
}

const RuleDescription& find_rule(const std::string& name) { return find_kind(name).description; }

const RuleParameter* find_parameter(const RuleDescription& rule, const std::string& key) {
  for (const RuleParameter& parameter : rule.parameters) {
    if (key == parameter.key) return &parameter;
  }
  return nullptr;
}

std::string problem_with(const RuleDescription& rule, const std::string& key, double value) {
  const RuleParameter* parameter = find_parameter(rule, key);
  if (parameter == nullptr) {
    std::string keys;
    for (const RuleParameter& known : rule.parameters) keys += (keys.empty() ? "" : ", ") + std::string(known.key);
    return " has no parameter '" + key + "'; expected one of " + keys;
  }
  const bool fits = value >= parameter->least && value <= parameter->most;
  if (fits && (!parameter->whole || value == std::floor(value))) return {};
  return ": " + key + " is " + plain(value) + "; expected " + (parameter->whole ? "a whole number from " : "") +
         plain(parameter->least) + " to " + plain(parameter->most);
}

std::string describe_rule(const RuleSpec& spec) {
  const RuleDescription& rule = find_rule(spec.name);
  const std::map<std::string, double> values = values_of(rule, spec);
  std::string text;
  for (const RuleParameter& parameter : rule.parameters) {
    text += (text.empty() ? " (" : ", ") + std::string(parameter.key) + " " + plain(values.at(parameter.key));
  }
  return rule.name + text + ")";
}

}  // namespace ashlar
