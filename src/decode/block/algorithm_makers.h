// SPDX-License-Identifier: Apache-2.0
#pragma once
// The makers of all algorithms, for the table in algorithms.cc.

#include <memory>

#include "decode/block/algorithms.h"

namespace ashlar {

struct AlgorithmKind {
  AlgorithmDescription description;
  std::unique_ptr<UnmaskAlgorithm> (*make)(const std::map<std::string, double>& values, int32_t block);
};

extern const AlgorithmKind kCreditAlgorithm;
extern const AlgorithmKind kEntropyBoundAlgorithm;
extern const AlgorithmKind kEntropyBoundedAlgorithm;
extern const AlgorithmKind kFactorAlgorithm;
extern const AlgorithmKind kHierarchyAlgorithm;
extern const AlgorithmKind kJointThresholdAlgorithm;
extern const AlgorithmKind kKlassAlgorithm;
extern const AlgorithmKind kLowConfidenceAlgorithm;
extern const AlgorithmKind kS2d2Algorithm;
extern const AlgorithmKind kSequentialAlgorithm;
extern const AlgorithmKind kStaticAlgorithm;

}  // namespace ashlar
