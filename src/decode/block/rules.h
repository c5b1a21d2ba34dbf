#pragma once
// Unmasking rules by name, with their parameters.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decode/block/unmask_rule.h"

namespace ashlar {

/// A rule's name and parameters as a user gives them: keys and numbers. What is not given has the rule's default.
struct RuleSpec {
  std::string name;  ///< empty: low_confidence
  std::map<std::string, double> values;
};

struct RuleParameter {
  const char* key;
  double usual, least, most;
  const char* meaning;
};

struct RuleDescription {
  const char* name;
  const char* summary;
  std::vector<RuleParameter> parameters;
};

/// Makes the rule for blocks of `block` positions. Throws Error("decode", ...) for an unknown name or key, or a value
/// out of range.
std::unique_ptr<UnmaskRule> make_rule(const RuleSpec& spec, int32_t block);

std::vector<RuleDescription> rule_descriptions();

}  // namespace ashlar
