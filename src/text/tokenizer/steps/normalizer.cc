// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/steps/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "io/json.h"
#include "text/tokenizer/pattern/pattern.h"
#include "text/tokenizer/pattern/unicode_unnormalized.h"
#include "text/tokenizer/steps/character_map.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

enum class Form { kNfc, kNfd, kNfkc, kNfkd };

int combining_class(char32_t code_point) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class;
}

// One code point decomposes into at most 18 (U+FDFA, compatibility).
constexpr int kMaxDecomposition = 32;

bool left_alone(char32_t code_point) {
  const auto* range = std::lower_bound(kUnnormalized.begin(), kUnnormalized.end(), code_point,
                                       [](const CodePointRange& r, char32_t c) { return r.last < c; });
  return range != kUnnormalized.end() && range->first <= code_point;
}

void decompose(char32_t code_point, bool compatibility, std::vector<utf8proc_int32_t>& out) {
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  utf8proc_int32_t parts[kMaxDecomposition];
  int boundary = 0;
  const auto n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts, kMaxDecomposition, options, &boundary);
  if (n <= 0 || n > kMaxDecomposition) {
    out.push_back(static_cast<utf8proc_int32_t>(code_point));
  } else {
    out.insert(out.end(), parts, parts + n);
  }
}

// Canonical order: each run of marks sorted by class. Sorted here because utf8proc exchanges neighbours, which is
// quadratic in a long run of marks.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  const auto is_starter = [](utf8proc_int32_t c) { return combining_class(static_cast<char32_t>(c)) == 0; };
  for (auto run = text.begin(); run != text.end();) {
    run = std::find_if_not(run, text.end(), is_starter);
    const auto end = std::find_if(run, text.end(), is_starter);
    std::stable_sort(run, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(static_cast<char32_t>(a)) < combining_class(static_cast<char32_t>(b));
    });
    run = end;
  }
}

// Orders and composes what has been decomposed, appends it to `out` and empties it.
void finish(std::vector<utf8proc_int32_t>& points, bool compose, std::string& out) {
  order_marks(points);
  if (compose) {
    const auto n = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                            static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (n >= 0) points.resize(static_cast<size_t>(n));
  }
  for (const utf8proc_int32_t point : points) append_utf8(static_cast<char32_t>(point), out);
  points.clear();
}

std::string normalize_form(std::string text, Form form) {
  // Below U+0300 (lead bytes up to 0xCB) nothing composes; ASCII is its own normal form of every kind.
  const unsigned char quick = form == Form::kNfc ? 0xCC : 0x80;
  if (std::all_of(text.begin(), text.end(), [quick](char c) { return static_cast<unsigned char>(c) < quick; })) {
    return text;
  }
  const bool compatibility = form == Form::kNfkc || form == Form::kNfkd;
  const bool compose = form == Form::kNfc || form == Form::kNfkc;
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> points;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_at(text, at);
    at += unit.length;
    if (!left_alone(unit.code_point)) {
      decompose(unit.code_point, compatibility, points);
      continue;
    }
    // To the reference such a character is an unknown starter: nothing moves or composes across it.
    finish(points, compose, out);
    append_utf8(unit.code_point, out);
  }
  finish(points, compose, out);
  return out;
}

// Capitals of Unicode 16 and 17, which utf8proc may not know: {first, last, first of the small letters}.
struct CaseAddition {
  char32_t first, last, small;
};
constexpr CaseAddition kCaseAdditions[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},    {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},   {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};

char32_t to_lower(char32_t code_point) {
  for (const CaseAddition& addition : kCaseAdditions) {
    if (code_point >= addition.first && code_point <= addition.last) {
      return addition.small + (code_point - addition.first);
    }
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_at(text, at);
    at += unit.length;
    if (unit.code_point == 0x130) {
      out += "i\xCC\x87";  // the one character whose full lower case is two characters
    } else {
      append_utf8(to_lower(unit.code_point), out);
    }
  }
  return out;
}

// Whether nothing that stands before such a character can join it in a normal form.
bool begins_apart(char32_t code_point) {
  if (code_point < 0x80) return true;
  std::vector<utf8proc_int32_t> parts;
  decompose(code_point, /*compatibility=*/true, parts);
  const utf8proc_int32_t first = parts.front();
  const utf8proc_category_t category = utf8proc_category(first);
  const bool mark =
      category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
  const bool inner_jamo = first >= 0x1160 && first <= 0x11FF;  // vowels and finals of Hangul
  return !mark && !inner_jamo;
}

/// `map`, a normal form or one of characters alone, of each part of one origin. Where a border cuts what may become one
/// character, that is a part, of the greatest origin in it.
template <class Map>
SourcedText by_origin(SourcedText text, const Map& map) {
  if (!text.origins.mixed()) return {map(std::move(text.bytes)), std::move(text.origins)};
  SourcedText out;
  const std::string& bytes = text.bytes;
  const auto apart = [&](size_t at) { return at == bytes.size() || begins_apart(utf8_at(bytes, at).code_point); };
  const auto add = [&](size_t from, size_t to) {
    if (from < to) out.append(map(bytes.substr(from, to - from)), text.origins.greatest(from, to));
  };
  size_t at = 0;
  for (const Origins::Run& run : text.origins.runs()) {
    if (run.end <= at) continue;
    size_t from = run.end, to = run.end;
    while (!apart(to)) to += utf8_at(bytes, to).length;
    if (to > run.end) {
      do {
        from = utf8_previous(bytes, from);
      } while (from > at && !apart(from));
    }
    add(at, from);
    add(from, to);
    at = to;
  }
  return out;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const Utf8Unit unit = utf8_at(text, 0);
    if (!is_white_space(unit.code_point)) break;
    text.remove_prefix(unit.length);
  }
  while (right && !text.empty()) {
    const size_t last = utf8_previous(text, text.size());
    if (!is_white_space(utf8_at(text, last).code_point)) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace

Normalizer::Normalizer(const std::optional<JsonNode>& node) {
  if (node) add(*node);
}

SourcedText Normalizer::normalize(SourcedText text) const {
  const size_t given = text.bytes.size();
  const size_t most = max_grown_bytes(given);
  for (const Step& step : steps_) {
    text = step.apply(std::move(text), most);
    if (text.bytes.size() > most) {
      throw Error("tokenizer", "the tokenizer's " + step.place + " lets a text of " + std::to_string(given) +
                                   " bytes grow beyond " + std::to_string(most) + ", which is the limit");
    }
  }
  return text;
}

void Normalizer::add(const JsonNode& node) {
  const std::string& type = node.text("type");
  if (type == "Sequence") {
    for (const JsonNode& item : node.at("normalizers").items(kMaxSteps)) add(item);
    return;
  }
  if (steps_.size() == kMaxSteps) node.fail("expected at most " + std::to_string(kMaxSteps) + " steps in all");
  const auto step = [&](auto apply) { steps_.push_back({std::move(apply), node.place()}); };
  const auto form = [&](Form which) {
    step([which](SourcedText text, size_t) {
      return by_origin(std::move(text), [which](std::string part) { return normalize_form(std::move(part), which); });
    });
  };
  if (type == "NFC") {
    form(Form::kNfc);
  } else if (type == "NFD") {
    form(Form::kNfd);
  } else if (type == "NFKC") {
    form(Form::kNfkc);
  } else if (type == "NFKD") {
    form(Form::kNfkd);
  } else if (type == "Lowercase") {
    step([](SourcedText text, size_t) { return by_origin(std::move(text), lowercase); });
  } else if (type == "Strip") {
    step([left = node.flag_or("strip_left", true), right = node.flag_or("strip_right", true)](const SourcedText& text,
                                                                                              size_t) {
      SourcedText out;
      out.append_part(text, strip(text.bytes, left, right));
      return out;
    });
  } else if (type == "Prepend") {
    step([prefix = node.text("prepend")](SourcedText text, size_t) {
      if (text.bytes.empty()) return text;
      SourcedText out{prefix, text.origins.greatest(0, 1)};
      out.append(text);
      return out;
    });
  } else if (type == "Precompiled") {
    step([map = std::make_shared<const CharacterMap>(node.at("precompiled_charsmap"))](SourcedText text, size_t most) {
      return by_origin(std::move(text), [&](const std::string& part) { return map->apply(part, most); });
    });
  } else if (type == "Replace") {
    step([replacement = Replacement(node)](const SourcedText& text, size_t most) {
      return replacement.apply(text, most);
    });
  } else {
    node.fail("the normalizer type '" + for_message(type) +
              "' is not supported (known: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, "
              "Precompiled, Replace)");
  }
}

}  // namespace ashlar::text
