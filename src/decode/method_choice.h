// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a request may choose about how it is decoded. Names and numbers as a user gives them: only the decoder knows
// what they mean, and whether there is anything to choose.

#include <map>
#include <string>

namespace ashlar {

struct MethodChoice {
  std::string algorithm;                 ///< empty: the one the decoder was started with
  std::map<std::string, double> values;  ///< its parameters; what is missing has its usual value

  bool empty() const { return algorithm.empty() && values.empty(); }
};

}  // namespace ashlar
