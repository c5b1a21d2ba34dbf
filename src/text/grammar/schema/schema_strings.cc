// SPDX-License-Identifier: Apache-2.0
// Strings of a schema: lengths, patterns, formats, and any of them together.

#include <algorithm>
#include <map>
#include <optional>

#include "text/grammar/pattern/lookahead.h"
#include "text/grammar/pattern/regex_grammar.h"
#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_merge.h"

namespace ashlar::grammar {
namespace {

// Dates are those of the calendar; the year 0000 is none.
const std::string kYear = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
const std::string kLeapYear = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
const std::string kDate = "(?:" + kYear +
                          "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
                          "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
                          kLeapYear + "-02-29)";
const std::string kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
// At most 32 characters, none of them "-" in both the third and the fourth place, where it announces an encoding such
// as that of "xn--", which not every text decodes from.
const std::string kDomainLabel =
    "[A-Za-z0-9](?:[A-Za-z0-9-]{0,2}[A-Za-z0-9]|[A-Za-z0-9-](?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])"
    "[A-Za-z0-9-]{0,27}[A-Za-z0-9])?";
const std::string kHost = kDomainLabel + "(?:\\." + kDomainLabel + "){0,4}";

// `count` words with dots between them, in a regular expression.
std::string email_words(int32_t longest, const std::string& count) {
  const std::string word = "[A-Za-z0-9_+-]{1," + std::to_string(longest) + "}";
  return word + "(?:\\." + word + "){" + count + "}";
}
// At most 64 characters before the "@", whatever the number of words.
const std::string kMailbox = "(?:" + email_words(64, "0") + "|" + email_words(31, "1") + "|" + email_words(20, "2") +
                             "|" + email_words(12, "3,4") + ")";
const std::string kIpByte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";

const std::string kClock = "(?:[0-9]{1,6}S|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?)";

const std::map<std::string, std::string>& formats() {
  static const std::map<std::string, std::string> known = {
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "T" + kTime},
      {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
      {"email", kMailbox + "@(?:" + kDomainLabel + "\\.){1,4}[A-Za-z]{2,32}"},
      {"ipv4", kIpByte + "(?:\\." + kIpByte + "){3}"},
      {"ipv6", "(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|::1|[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,5}::"},
      {"hostname", kHost},
      {"uri",
       "[a-z]+://[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*(?::[1-9][0-9]{0,3})?(?:[/?](?:[A-Za-z0-9._~!$&'()*+,;=:@/"
       "?-]|%[0-9A-F]{2})*)?"},
      {"duration",
       "P(?:[0-9]{1,6}W|(?:[0-9]{1,6}D|[0-9]{1,6}M(?:[0-9]{1,6}D)?|[0-9]{1,6}Y(?:[0-9]{1,6}M(?:[0-9]{1,6}D)?)?)"
       "(?:T" +
           kClock + ")?|T" + kClock + ")"},
      {"password", "[^\\x00-\\x1f]*"},
  };
  return known;
}

constexpr int64_t kShortest = 32;  // characters that a pattern with maxLength allows, at least

// Of UTF-8 that something else checks: a character is a byte that continues none.
TextSet lengths(int64_t min, int64_t max) {
  const int64_t last = max < 0 ? min : max;
  std::vector<TextSet::State> states(static_cast<size_t>(last) + 1);
  for (int64_t n = 0; n <= last; ++n) {
    TextSet::State& state = states[static_cast<size_t>(n)];
    state.accepting = n >= min;
    const int64_t next = n < last ? n + 1 : max < 0 ? last : TextSet::kNone;
    for (size_t byte = 0; byte < 256; ++byte) {
      state.next[byte] = static_cast<int32_t>((byte & 0xC0) == 0x80 ? n : next);
    }
  }
  return TextSet(std::move(states));
}

// Texts of a set with a number of characters. Where counting up to `max` takes too many states, up to less.
TextSet sized(Builder& charge, const TextSet& set, int64_t min, int64_t max) {
  for (;;) {
    try {
      return set.with(charge, lengths(min, max));
    } catch (const TextSet::TooLarge&) {
      if (max / 2 <= min || max < kShortest) throw;
      max = std::max<int64_t>(max / 2, min);
    }
  }
}

}  // namespace

std::vector<std::string> texts_of(const Json& schema, const char* key, const std::string& pointer) {
  std::vector<std::string> texts;
  if (!schema.contains(key)) return texts;
  const Json& value = schema[key];
  for (const Json& text : value.is_array() && key[0] == kInternal ? value : Json::array({value})) {
    if (!text.is_string()) schema_error(pointer_to(pointer, key), "expected a string");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

const std::string& format_pattern(const std::string& format, const std::string& pointer) {
  const auto known = formats().find(format);
  if (known != formats().end()) return known->second;
  std::string names;
  for (const auto& [name, regex] : formats()) names += (names.empty() ? "" : ", ") + name;
  schema_error(pointer_to(pointer, "format"),
               "the format \"" + for_message(format) + "\" is not supported; " + names + " are");
}

const std::string& widest_format_pattern(const std::string& format, const std::string& pointer) {
  static const std::map<std::string, std::string> widest = {
      {"date", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
      {"time", "^[0-9]{2}:"},
      {"date-time", "^[0-9]{4}-[0-9]{2}-[0-9]{2}"},
      {"duration", "^P"},
      {"email", "@"},
      {"hostname", "^[^ @:/]+$"},
      {"ipv4", "^[0-9]+\\.[0-9]+\\."},
      {"ipv6", ":"},
      {"uri", ":"},
      {"uuid", "^[0-9A-Fa-f]{8}-"},
      {"password", ""},
  };
  format_pattern(format, pointer);
  return widest.at(format);
}

Expr SchemaCompiler::quoted(Expr inside) {
  const Expr quote = builder_.literal("\"");
  return builder_.sequence({quote, inside, quote});
}

Expr SchemaCompiler::pattern(const std::string& pattern, const std::string& pointer) {
  const std::string what = "the pattern at " + for_message(pointer);
  if (begins_with_lookahead(pattern)) return quoted(pattern_set(pattern, pointer).write_escaped(builder_));
  const CharWriter write = [this](const CodePointSet& set) { return values_.char_of(set); };
  return quoted(regex_expression(builder_, pattern, write, {what, true, Reading::kNarrow}));
}

// What a pattern matches, as JSON schema has it: anywhere in the text.
TextSet SchemaCompiler::pattern_set(const std::string& pattern, const std::string& pointer, Reading reading) {
  const std::string what = "the pattern at " + for_message(pointer);
  const auto matched = [&](const std::string& of, Reading as) {
    return TextSet::of(builder_, [&](Builder& builder) {
      const CharWriter write = [&builder](const CodePointSet& set) { return builder.chars(set); };
      return regex_expression(builder, of, write, {what, true, as});
    });
  };
  const LookaheadPattern parts = split_lookaheads(pattern);
  TextSet set = matched(parts.rest, reading);
  for (const std::string& ahead : parts.required) set = set.with(builder_, matched(ahead, reading));
  for (const std::string& ahead : parts.forbidden) set = set.without(builder_, matched(ahead, opposite(reading)));
  return set;
}

// The strings that a flat schema allows.
TextSet SchemaCompiler::string_set(const Json& schema, const std::string& pointer, Reading reading) {
  if (schema.contains("enum") || schema.contains("const")) {
    std::vector<std::string> texts;
    for (const Json& value : allowed_constants(schema, pointer)) {
      if (value.is_string()) texts.push_back(value.get<std::string>());
    }
    return TextSet::of(builder_, [&](Builder& builder) { return builder.strings(texts); });
  }
  std::optional<TextSet> set;
  const auto narrow = [&](TextSet by) { set = set ? set->with(builder_, by) : std::move(by); };
  for (const char* key : {"pattern", kPatterns}) {
    for (const std::string& text : texts_of(schema, key, pointer)) {
      narrow(pattern_set(text, pointer_to(pointer, "pattern"), reading));
    }
  }
  for (const std::string& text : texts_of(schema, "format", pointer)) {
    narrow(pattern_set("^(?:" + format_pattern(text, pointer) + ")$", pointer_to(pointer, "format")));
  }
  if (!set) set = TextSet::any_string(builder_);
  for (const std::string& text : texts_of(schema, kNotPatterns, pointer)) {
    set = set->without(builder_, pattern_set(text, pointer_to(pointer, "not"), opposite(reading)));
  }
  const int64_t min = count(schema, "minLength", 0, pointer);
  const int64_t max = count(schema, "maxLength", -1, pointer);
  if (max >= 0 && max < min) return TextSet({TextSet::State()});
  if (min > 0 || max >= 0) set = sized(builder_, *set, min, max);
  std::vector<std::string> excluded;
  for (const Json& value : excluded_values(schema)) {
    if (value.is_string()) excluded.push_back(value.get<std::string>());
  }
  if (!excluded.empty()) {
    set = set->without(builder_, TextSet::of(builder_, [&](Builder& builder) { return builder.strings(excluded); }));
  }
  return *set;
}

Expr SchemaCompiler::string(const Json& schema, const std::string& pointer) {
  const Json& excluded = excluded_values(schema);
  const bool excludes = std::any_of(excluded.begin(), excluded.end(), [](const Json& v) { return v.is_string(); });
  const bool sized = schema.contains("minLength") || schema.contains("maxLength");
  const size_t patterns = texts_of(schema, "pattern", pointer).size() + texts_of(schema, kPatterns, pointer).size();
  const size_t formats = texts_of(schema, "format", pointer).size();
  const bool together = excludes || schema.contains(kNotPatterns) || patterns + formats + (sized ? 1 : 0) > 1;
  if (together) return quoted(string_set(schema, pointer).write_escaped(builder_));
  if (formats > 0) {
    return pattern("^(?:" + format_pattern(schema["format"].get<std::string>(), pointer) + ")$", pointer);
  }
  if (patterns > 0) {
    return pattern(texts_of(schema, schema.contains("pattern") ? "pattern" : kPatterns, pointer)[0],
                   pointer_to(pointer, "pattern"));
  }
  const int64_t min = count(schema, "minLength", 0, pointer);
  return values_.string(min, count(schema, "maxLength", -1, pointer));
}

}  // namespace ashlar::grammar
