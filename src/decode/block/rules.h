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
  std::string name;  ///< also in other engines' spellings, such as LowConfidence; empty: low_confidence
  std::map<std::string, double> values;
};

struct RuleParameter {
  const char* key;
  double usual, least, most;
  const char* meaning;
  bool whole = false;  ///< whole numbers only
};

struct RuleDescription {
  const char* name;
  const char* summary;
  std::vector<RuleParameter> parameters;  ///< the first is the one that trades passes for agreement
  std::vector<const char*> also = {};     ///< other names
};

/// Makes the rule for blocks of `block` positions. Throws Error("decode", ...) for an unknown name or key, or a value
/// out of range.
std::unique_ptr<UnmaskRule> make_rule(const RuleSpec& spec, int32_t block);

std::vector<RuleDescription> rule_descriptions();

/// The rule of that name or alias; case, underscores and hyphens do not matter; empty: low_confidence. Throws
/// Error("decode", ...) naming all if there is none.
const RuleDescription& find_rule(const std::string& name);

/// The parameter of that key; null if the rule has none such.
const RuleParameter* find_parameter(const RuleDescription& rule, const std::string& key);

/// What is wrong with a parameter of a rule, ready to follow the rule's name; empty if nothing is.
std::string problem_with(const RuleDescription& rule, const std::string& key, double value);

/// "joint_threshold (threshold 0.5, edit_threshold 0, ...)": with every value that holds.
std::string describe_rule(const RuleSpec& spec);

}  // namespace ashlar
