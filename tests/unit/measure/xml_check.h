// SPDX-License-Identifier: Apache-2.0
#pragma once
// A strict reader of the XML that SVG files of ours use: elements, attributes in double quotes, text, five entities.

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::testing {

/// Empty if `xml` is one well-formed element; otherwise what is wrong and where.
inline std::string xml_problem(std::string_view xml) {
  std::vector<std::string> open;
  size_t i = 0;
  bool seen_root = false;
  const auto name_at = [&](size_t& at) {
    const size_t begin = at;
    while (at < xml.size() && (std::isalnum(static_cast<unsigned char>(xml[at])) || xml[at] == '-' || xml[at] == ':'))
      ++at;
    return std::string(xml.substr(begin, at - begin));
  };
  const auto problem = [&](const std::string& what) { return what + " at byte " + std::to_string(i); };
  while (i < xml.size()) {
    const char c = xml[i];
    if (c == '&') {
      bool known = false;
      for (const std::string_view entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"}) {
        if (xml.substr(i, entity.size()) != entity) continue;
        known = true;
        i += entity.size();
        break;
      }
      if (!known) return problem("a bare &");
      continue;
    }
    if (c != '<') {
      if (open.empty() && !std::isspace(static_cast<unsigned char>(c))) return problem("text outside the root");
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') return problem("a control character");
      ++i;
      continue;
    }
    ++i;
    const bool closing = i < xml.size() && xml[i] == '/';
    if (closing) ++i;
    const std::string name = name_at(i);
    if (name.empty()) return problem("a tag without name");
    if (closing) {
      if (open.empty() || open.back() != name) return problem("unbalanced </" + name + ">");
      open.pop_back();
      if (i >= xml.size() || xml[i++] != '>') return problem("an unfinished tag");
      continue;
    }
    if (open.empty() && seen_root) return problem("a second root");
    seen_root = true;
    std::vector<std::string> attributes;
    while (i < xml.size() && xml[i] == ' ') {
      ++i;
      const std::string attribute = name_at(i);
      if (attribute.empty() || xml.substr(i, 2) != "=\"") return problem("a bad attribute");
      for (const std::string& other : attributes) {
        if (other == attribute) return problem("a repeated attribute " + attribute);
      }
      attributes.push_back(attribute);
      i += 2;
      const size_t end = xml.find('"', i);
      if (end == std::string_view::npos) return problem("an unfinished value");
      if (xml.substr(i, end - i).find('<') != std::string_view::npos) return problem("< in a value");
      i = end + 1;
    }
    const bool empty = i < xml.size() && xml[i] == '/';
    if (empty) ++i;
    if (i >= xml.size() || xml[i++] != '>') return problem("an unfinished tag");
    if (!empty) open.push_back(name);
  }
  if (!open.empty()) return "unclosed <" + open.back() + ">";
  return seen_root ? "" : "no element";
}

}  // namespace ashlar::testing
