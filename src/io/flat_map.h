// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small settings files of one level: `key = value` as in TOML, or `key: value` as in YAML.

#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

struct FlatEntry {
  std::string key;
  std::string value;  ///< without quotes; never empty
  bool quoted = false;
  int line = 0;  ///< from 1
};

/// The entries of `text` in order. Keys are words of letters, digits, '_' and '-'; values are numbers, words or quoted
/// strings on one line; '#' begins a comment; YAML's document markers are skipped. Throws Error("config", ...) with
/// `name`, the line, what was found and what was expected: for nesting, lists, sections, a key that comes twice, more
/// than 64 KiB of text or 1000 entries.
std::vector<FlatEntry> parse_flat_map(std::string_view text, const std::string& name);

/// The number an entry holds. Throws Error("config", ...) if it is none or not finite.
double number_of(const FlatEntry& entry, const std::string& name);

/// "file:line: " for messages of one's own.
std::string place_of(const FlatEntry& entry, const std::string& name);

}  // namespace ashlar
