// SPDX-License-Identifier: Apache-2.0
#pragma once
// A parsed request, or why it is refused.

#include <utility>
#include <variant>

#include "base/check.h"
#include "server/generation.h"

namespace ashlar::server {

template <class T>
class [[nodiscard]] Parsed {
 public:
  Parsed(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Parsed(ApiError error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

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
  const ApiError& error() const {
    ASHLAR_CHECK(!ok());
    return std::get<ApiError>(state_);
  }

 private:
  std::variant<T, ApiError> state_;
};

}  // namespace ashlar::server
