// SPDX-License-Identifier: Apache-2.0
#include "app/doctor/doctor.h"

#include <algorithm>

namespace ashlar::doctor {
namespace {

const char* name_of(Severity severity) {
  constexpr const char* kNames[] = {"ok", "warning", "problem"};
  return kNames[static_cast<int>(severity)];
}

}  // namespace

Severity worst(const std::vector<Finding>& findings) {
  Severity out = Severity::kOk;
  for (const Finding& finding : findings) out = std::max(out, finding.severity);
  return out;
}

std::string report_lines(const std::vector<Finding>& findings) {
  std::string out;
  int64_t warnings = 0, problems = 0;
  for (const Finding& finding : findings) {
    std::string severity = name_of(finding.severity);
    severity.resize(9, ' ');
    out += severity + finding.check + ": " + finding.found + "\n";
    if (!finding.advice.empty()) out += "         -> " + finding.advice + "\n";
    warnings += finding.severity == Severity::kWarning;
    problems += finding.severity == Severity::kProblem;
  }
  return out + std::to_string(findings.size()) + " checks, " + std::to_string(warnings) +
         (warnings == 1 ? " warning, " : " warnings, ") + std::to_string(problems) +
         (problems == 1 ? " problem\n" : " problems\n");
}

Json report_json(const std::vector<Finding>& findings) {
  Json checks = Json::array();
  for (const Finding& finding : findings) {
    Json entry = {{"check", finding.check}, {"severity", name_of(finding.severity)}, {"found", finding.found}};
    if (!finding.advice.empty()) entry["advice"] = finding.advice;
    checks.push_back(std::move(entry));
  }
  return {{"severity", name_of(worst(findings))}, {"checks", std::move(checks)}};
}

}  // namespace ashlar::doctor
