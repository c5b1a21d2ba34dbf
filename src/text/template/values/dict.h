// SPDX-License-Identifier: Apache-2.0
#pragma once
// Insertion-ordered dictionary with Python's key equality (1 == 1.0 == True).

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/values/value.h"

namespace ashlar::tmpl {

struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;
  bool json_text = false;  ///< where a template wants text of it, that is its JSON text (Variable::json_texts)

  /// The value at a string key, or null.
  const Value* find(std::string_view key) const;
  /// The value at `key`, or null. Fails on a key that Python cannot hash.
  const Value* find(Budget& budget, const Value& key) const;
  /// Adds, or overwrites in place. Fails on a key that Python cannot hash.
  void set(Budget& budget, const Value& key, Value value);

 private:
  std::size_t position(Budget& budget, const Value& key) const;  // entries.size() when absent
  // Entries whose key is a string, whose text they keep where it is. Ordered: keys come from clients, who can find
  // thousands that an unkeyed hash takes for one, and then each would be compared with all before it.
  std::map<std::string_view, std::size_t> strings_;
  std::vector<std::size_t> others_;  // entries whose key is no string; rare, so scanned
};

Value make_dict(Dict dict);

}  // namespace ashlar::tmpl
