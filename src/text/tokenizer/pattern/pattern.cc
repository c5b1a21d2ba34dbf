// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern/pattern.h"

namespace ashlar::text {

Regex compile_pattern(const JsonNode& node) {
  if (const auto literal = node.find("String")) {
    if (literal->text().empty()) literal->fail("the pattern is empty");
    return Regex::from_literal(literal->text(), literal->where());
  }
  if (const auto regex = node.find("Regex")) {
    if (regex->text().empty()) regex->fail("the pattern is empty");
    return Regex::from_oniguruma(regex->text(), regex->where());
  }
  node.fail("a pattern must be {\"String\": ...} or {\"Regex\": ...}");
}

Replacement::Replacement(const JsonNode& node)
    : regex_(std::make_shared<const Regex>(compile_pattern(node.at("pattern")))), content_(node.text("content")) {}

SourcedText Replacement::apply(const SourcedText& text, size_t most) const {
  const std::string_view bytes = text.bytes;
  std::vector<ByteRange> matches;
  regex_->find_all(bytes, matches);
  SourcedText out;
  out.bytes.reserve(bytes.size());
  size_t copied = 0;
  for (const ByteRange& match : matches) {
    if (out.bytes.size() > most) return out;
    out.append_part(text, bytes.substr(copied, match.begin - copied));
    const bool empty = match.begin == match.end;
    const size_t from = match.begin - (empty && match.begin > 0 ? 1 : 0);
    out.append(content_, text.origins.greatest(from, match.end + (empty ? 1 : 0)));
    copied = match.end;
  }
  out.append_part(text, bytes.substr(copied));
  return out;
}

}  // namespace ashlar::text
