// SPDX-License-Identifier: Apache-2.0
#pragma once
// Result<T>: a value or a reason in words, for the request path, where bad input is an answer and not an exception.

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace ashlar {

/// Why something was refused: one sentence for the person who asked.
struct Failure {
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}            // NOLINT(google-explicit-constructor)
  Result(Failure failure) : state_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  /// The value; ok() must hold.
  T& value() {
    ASHLAR_CHECK(ok());
    return std::get<T>(state_);
  }
  const T& value() const {
    ASHLAR_CHECK(ok());
    return std::get<T>(state_);
  }
  /// The reason; ok() must not hold.
  const std::string& error() const {
    ASHLAR_CHECK(!ok());
    return std::get<Failure>(state_).message;
  }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace ashlar
