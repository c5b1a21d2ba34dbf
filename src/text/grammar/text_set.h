// SPDX-License-Identifier: Apache-2.0
#pragma once
// Regular sets of texts as deterministic automata over bytes: what two rules about the same string or number allow
// together, and what one allows and the other does not.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/grammar/builder.h"

namespace ashlar::grammar {

class TextSet {
 public:
  static constexpr int32_t kNone = -1;
  /// Most states of a set; one that needs more is TooLarge.
  static constexpr size_t kMaxStates = 16384;
  struct TooLarge : Error {
    using Error::Error;
  };
  struct State {
    std::array<int32_t, 256> next;
    bool accepting = false;
    State() { next.fill(kNone); }
  };

  /// State 0 is the start.
  explicit TextSet(std::vector<State> states) : states_(std::move(states)) {}
  /// The texts of an expression, which `make` puts together of rules that do not call themselves. `charge` pays.
  static TextSet of(Builder& charge, const std::function<Expr(Builder&)>& make);
  /// All strings of characters in UTF-8.
  static TextSet any_string(Builder& charge);

  /// Texts of both.
  TextSet with(Builder& charge, const TextSet& other) const { return product(charge, other, true); }
  /// Texts of this and not of the other.
  TextSet without(Builder& charge, const TextSet& other) const { return product(charge, other, false); }

  /// The same set with as few states as it can have.
  TextSet minimal(Builder& charge) const;

  bool contains(std::string_view text) const;
  bool empty() const;

  /// As bytes.
  Expr write(Builder& builder) const { return write(builder, false); }
  /// As the inside of a JSON string, each character in one spelling, escaped only where it must be.
  Expr write_escaped(Builder& builder) const { return write(builder, true); }

 private:
  TextSet product(Builder& charge, const TextSet& other, bool both) const;
  Expr write(Builder& builder, bool escaped) const;
  std::vector<bool> alive() const;

  std::vector<State> states_;
};

/// How JSON writes a byte of a string: itself or an escape.
std::string json_byte(uint8_t byte);

}  // namespace ashlar::grammar
