// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the facade checks by itself, in the words of its errors.

#include <string>
#include <utility>

#include "ashlar/llm_types.h"
#include "base/error.h"
#include "io/json.h"

namespace ashlar {

/// The result of `call`, whose errors become the facade's: the library's own kinds do not leave it.
template <class Call>
auto with_own_errors(Call&& call) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (const Error& error) {
    throw LlmError(error.what());
  }
}

inline std::string quoted(const std::string& value) { return "'" + for_message(value) + "'"; }

/// `value`, or an error that names it where it lies outside [low, high].
template <class T>
T in_range(T value, const char* name, T low, T high) {
  if (value >= low && value <= high) return value;
  throw Error("options", std::string(name) + " is " + std::to_string(value) + "; expected a whole number from " +
                             std::to_string(low) + " to " + std::to_string(high));
}

/// The error about a name that is none of those that there are.
[[noreturn]] inline void refuse(const char* name, const std::string& value, const char* expected) {
  throw Error("options", std::string(name) + " is " + quoted(value) + "; expected " + expected);
}

}  // namespace ashlar
