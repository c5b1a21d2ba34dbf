// SPDX-License-Identifier: Apache-2.0
#pragma once
// Variables of a running template.

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/parse/ast.h"

namespace ashlar::tmpl {

struct Scope {
  Scope* parent = nullptr;
  /// Few names each, so scanned. The names belong to the parsed template, which outlives the render.
  std::vector<std::pair<std::string_view, Value>> variables;
  bool captured = false;  ///< a macro refers to it, so it may not be used again for another frame

  const Value* find_here(std::string_view name) const {
    for (const auto& [key, value] : variables)
      if (key == name) return &value;
    return nullptr;
  }

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent)
      if (const Value* value = scope->find_here(name)) return value;
    return nullptr;
  }

  void set(std::string_view name, Value value) {
    for (auto& [key, old] : variables)
      if (key == name) {
        old = std::move(value);
        return;
      }
    variables.emplace_back(name, std::move(value));
  }

  /// Keeps this scope and those around it for a macro.
  void capture() {
    for (Scope* scope = this; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
  }
};

/// Owns every scope of a render, so that macros may point at them without counting.
class ScopePool {
 public:
  Scope& acquire(Budget& budget, Scope* parent) {
    if (free_ == nullptr) {
      budget.work(sizeof(Scope) + 64);
      free_ = &all_.emplace_back();
    }
    Scope& scope = *free_;
    free_ = std::exchange(scope.parent, parent);
    return scope;
  }

  /// Needs no memory: scopes end where an exception passes.
  void release(Scope& scope) noexcept {
    if (scope.captured) return;
    scope.variables.clear();
    scope.parent = std::exchange(free_, &scope);
  }

 private:
  std::deque<Scope> all_;
  Scope* free_ = nullptr;  // the first of those to be used again, which are linked by their parents
};

/// A scope for the length of a block.
class ScopeHold {
 public:
  /// `hidden` are the scope's first variables.
  ScopeHold(ScopePool& pool, Budget& budget, Scope* parent, const HiddenNames& hidden = {})
      : pool_(pool), scope_(pool.acquire(budget, parent)) {
    budget.step(hidden.size());
    for (const auto& [name, undefined] : hidden) scope_.variables.emplace_back(name, undefined);
  }
  ~ScopeHold() { pool_.release(scope_); }
  ScopeHold(const ScopeHold&) = delete;
  ScopeHold& operator=(const ScopeHold&) = delete;
  Scope& operator*() const { return scope_; }

 private:
  ScopePool& pool_;
  Scope& scope_;
};

}  // namespace ashlar::tmpl
