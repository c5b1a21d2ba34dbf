#pragma once
// The makers of all rules, for the table in rules.cc.

#include <memory>

#include "decode/block/rules.h"

namespace ashlar {

struct RuleKind {
  RuleDescription description;
  std::unique_ptr<UnmaskRule> (*make)(const std::map<std::string, double>& values, int32_t block);
};

extern const RuleKind kCreditRule;
extern const RuleKind kEntropyBoundRule;
extern const RuleKind kEntropyBoundedRule;
extern const RuleKind kFactorRule;
extern const RuleKind kHierarchyRule;
extern const RuleKind kJointThresholdRule;
extern const RuleKind kKlassRule;
extern const RuleKind kLowConfidenceRule;
extern const RuleKind kS2d2Rule;
extern const RuleKind kSequentialRule;
extern const RuleKind kStaticRule;

}  // namespace ashlar
