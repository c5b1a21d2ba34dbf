#include "text/pattern.h"

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

std::string Replacement::apply(std::string_view text) const {
  std::vector<ByteRange> matches;
  regex_->find_all(text, matches);
  std::string out;
  out.reserve(text.size());
  size_t copied = 0;
  for (const ByteRange& match : matches) {
    out.append(text, copied, match.begin - copied);
    out += content_;
    copied = match.end;
  }
  out.append(text, copied);
  return out;
}

}  // namespace ashlar::text
