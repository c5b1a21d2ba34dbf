// SPDX-License-Identifier: Apache-2.0
#pragma once
// Texts that know where their bytes come from: what tests of them share.

#include "text/template/origins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <set>

#include "base/error.h"
#include "text/template/chat_template.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::origins {

inline constexpr Origin kAll[] = {Origin::kTemplate, Origin::kData, Origin::kSaid};

inline std::string read(const std::string& path) {
  std::ifstream in(std::string(ASHLAR_TEST_DATA) + path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The first place from `at` on where a character begins or the text ends.
inline size_t at_character(const std::string& text, size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return std::min(at, text.size());
}

/// One letter a byte: t, d, s.
inline std::string letters(const SourcedText& text) {
  std::string out;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    out += "tds"[static_cast<size_t>(text.origins.greatest(i, i + 1))];
  }
  return out;
}

inline SourcedText render(const std::string& source, const Json& data) {
  const std::vector<Variable> variables = {{"u", &data, Origin::kSaid}};
  return Template::parse(source, "t").render(variables);
}

/// A copy of `value` whose strings `change` has been at, those of roles excepted.
inline Json changed(const Json& value, const std::function<std::string(const std::string&)>& change) {
  if (value.is_string()) return change(value.get<std::string>());
  Json out = value;
  for (auto it = out.begin(); it != out.end() && value.is_structured(); ++it) {
    if (value.is_array() || it.key() != "role") *it = changed(*it, change);
  }
  return out;
}

struct Case {
  std::string name, source;
  Json input;
};

inline std::vector<Case> golden_cases(bool families_only) {
  const Json goldens = Json::parse(read("/templates/goldens.json"));
  std::vector<Case> out;
  for (const Json& golden : goldens["cases"]) {
    const bool file = golden.contains("file");
    if (golden["output"].is_null() || (families_only && !file)) continue;
    const std::string name = golden[file ? "file" : "feature"].get<std::string>();
    const std::string source =
        file ? read("/templates/families/" + name) : goldens["features"][name].get<std::string>();
    out.push_back({name, source, goldens["inputs"][golden["input"].get<std::string>()]});
  }
  return out;
}

}  // namespace ashlar::origins
