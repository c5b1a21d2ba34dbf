#pragma once
// The makers of all rules, for the table in rules.cc.

#include <memory>

#include "decode/block/rules.h"

namespace ashlar {

struct RuleKind {
  RuleDescription description;
  std::unique_ptr<UnmaskRule> (*make)(const std::map<std::string, double>& values, int32_t block);
};

extern const RuleKind kLowConfidenceRule;

}  // namespace ashlar
