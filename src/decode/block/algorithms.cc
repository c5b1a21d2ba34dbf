// SPDX-License-Identifier: Apache-2.0
#include "decode/block/algorithms.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "decode/block/algorithm_makers.h"

namespace ashlar {
namespace {

const std::vector<const AlgorithmKind*>& kinds() {
  static const std::vector<const AlgorithmKind*> all = {
      &kLowConfidenceAlgorithm,  &kStaticAlgorithm, &kSequentialAlgorithm,     &kEntropyBoundAlgorithm,
      &kEntropyBoundedAlgorithm, &kFactorAlgorithm, &kJointThresholdAlgorithm, &kHierarchyAlgorithm,
      &kKlassAlgorithm,          &kCreditAlgorithm, &kS2d2Algorithm,
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

bool is_named(const AlgorithmDescription& algorithm, const std::string& wanted) {
  if (letters(algorithm.name) == wanted) return true;
  return std::any_of(algorithm.also.begin(), algorithm.also.end(),
                     [&](const char* name) { return letters(name) == wanted; });
}

const AlgorithmKind& find_kind(const std::string& name) {
  std::string names;
  for (const AlgorithmKind* kind : kinds()) {
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
std::map<std::string, double> values_of(const AlgorithmDescription& algorithm, const AlgorithmSpec& spec) {
  std::map<std::string, double> values;
  for (const AlgorithmParameter& parameter : algorithm.parameters) values[parameter.key] = parameter.usual;
  for (const auto& [key, value] : spec.values) {
    const std::string problem = problem_with(algorithm, key, value);
    if (!problem.empty()) throw Error("decode", "the denoising algorithm " + std::string(algorithm.name) + problem);
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

std::unique_ptr<UnmaskAlgorithm> make_algorithm(const AlgorithmSpec& spec, int32_t block) {
  const AlgorithmKind& kind = find_kind(spec.name);
  return kind.make(values_of(kind.description, spec), block);
}

std::vector<AlgorithmDescription> algorithm_descriptions() {
  std::vector<AlgorithmDescription> descriptions;
  for (const AlgorithmKind* kind : kinds()) descriptions.push_back(kind->description);
  return descriptions;
}

const AlgorithmDescription& find_algorithm(const std::string& name) { return find_kind(name).description; }

const AlgorithmParameter* find_parameter(const AlgorithmDescription& algorithm, const std::string& key) {
  for (const AlgorithmParameter& parameter : algorithm.parameters) {
    if (key == parameter.key) return &parameter;
  }
  return nullptr;
}

std::string problem_with(const AlgorithmDescription& algorithm, const std::string& key, double value) {
  const AlgorithmParameter* parameter = find_parameter(algorithm, key);
  if (parameter == nullptr) {
    std::string keys;
    for (const AlgorithmParameter& known : algorithm.parameters)
      keys += (keys.empty() ? "" : ", ") + std::string(known.key);
    return " has no parameter '" + key + "'; expected one of " + keys;
  }
  const bool fits = value >= parameter->least && value <= parameter->most;
  if (fits && (!parameter->whole || value == std::floor(value))) return {};
  return ": " + key + " is " + plain(value) + "; expected " + (parameter->whole ? "a whole number from " : "") +
         plain(parameter->least) + " to " + plain(parameter->most);
}

std::string describe_algorithm(const AlgorithmSpec& spec) {
  const AlgorithmDescription& algorithm = find_algorithm(spec.name);
  const std::map<std::string, double> values = values_of(algorithm, spec);
  std::string text;
  for (const AlgorithmParameter& parameter : algorithm.parameters) {
    text += (text.empty() ? " (" : ", ") + std::string(parameter.key) + " " + plain(values.at(parameter.key));
  }
  return algorithm.name + text + ")";
}

}  // namespace ashlar
