// SPDX-License-Identifier: Apache-2.0
#pragma once
// Unmasking algorithms by name, with their parameters.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decode/block/unmask_algorithm.h"

namespace ashlar {

/// An algorithm's name and parameters as a user gives them: keys and numbers. What is not given has the algorithm's
/// default.
struct AlgorithmSpec {
  std::string name;  ///< also in other engines' spellings, such as LowConfidence; empty: low_confidence
  std::map<std::string, double> values;
};

struct AlgorithmParameter {
  const char* key;
  double usual, least, most;
  const char* meaning;
  bool whole = false;  ///< whole numbers only
};

struct AlgorithmDescription {
  const char* name;
  const char* summary;
  std::vector<AlgorithmParameter> parameters;  ///< the first is the one that trades passes for agreement
  std::vector<const char*> also = {};          ///< other names
};

/// Makes the algorithm for blocks of `block` positions. Throws Error("decode", ...) for an unknown name or key, or a
/// value out of range.
std::unique_ptr<UnmaskAlgorithm> make_algorithm(const AlgorithmSpec& spec, int32_t block);

std::vector<AlgorithmDescription> algorithm_descriptions();

/// The algorithm of that name or alias; case, underscores and hyphens do not matter; empty: low_confidence. Throws
/// Error("decode", ...) naming all if there is none.
const AlgorithmDescription& find_algorithm(const std::string& name);

/// The parameter of that key; null if the algorithm has none such.
const AlgorithmParameter* find_parameter(const AlgorithmDescription& algorithm, const std::string& key);

/// What is wrong with a parameter of an algorithm, ready to follow the algorithm's name; empty if nothing is.
std::string problem_with(const AlgorithmDescription& algorithm, const std::string& key, double value);

/// "joint_threshold (threshold 0.5, edit_threshold 0, ...)": with every value that holds.
std::string describe_algorithm(const AlgorithmSpec& spec);

}  // namespace ashlar
