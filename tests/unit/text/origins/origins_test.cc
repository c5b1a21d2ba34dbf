// SPDX-License-Identifier: Apache-2.0
// What a caller wrote never becomes a special token, whatever a template makes of it, and nothing else depends on who
// wrote what.

#include "unit/text/origins/support.h"

namespace ashlar::origins {
namespace {

TEST(Origins, AreThoseOfEachByte) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    SourcedText text;
    std::string expected;
    for (int i = 0; i < 6; ++i) {
      SourcedText piece;
      std::string piece_letters;
      for (size_t runs = random() % 4; runs-- > 0;) {
        const size_t size = random() % 4;
        const size_t origin = random() % 3;
        piece.append(std::string(size, 'x'), kAll[origin]);
        piece_letters += std::string(size, "tds"[origin]);
      }
      const size_t from = random() % (piece.bytes.size() + 1);
      const size_t size = random() % (piece.bytes.size() - from + 1);
      if (round % 2 == 0) {
        text.append(piece);
        expected += piece_letters;
      } else {
        text.append_part(piece, std::string_view(piece.bytes).substr(from, size));
        expected += piece_letters.substr(from, size);
      }
    }
    ASSERT_EQ(letters(text), expected);
    ASSERT_EQ(text.origins.mixed(), std::set<char>(expected.begin(), expected.end()).size() > 1) << expected;
    for (size_t i = 1; i < text.origins.runs().size(); ++i) {
      ASSERT_NE(text.origins.runs()[i].origin, text.origins.runs()[i - 1].origin);
    }
    if (text.origins.mixed()) {
      ASSERT_EQ(text.origins.runs().back().end, expected.size());
    }
  }
}

/// Small letters are the template's, capitals the user's. A result as a whole says whose each byte is.
TEST(Origins, FollowTheBytesThroughEveryOperation) {
  const Json data = {{"a", "ABC DEF"}, {"list", {"X", "Y"}}, {"KEY", "V"}, {"n", 65}, {"f", "%sQ"}, {"b", "{}Q"}};
  const std::pair<const char*, const char*> cases[] = {
      {"x{{ u.a }}y", "tssssssst"},
      {"{{ 'x' + u.a[1:3] + 'y' }}", "tsst"},
      {"{{ ('xy' ~ u.a ~ 'z')[1:4] }}", "tss"},
      {"{{ ('xy' ~ u.a)[::-1] }}", "ssssssstt"},
      {"{{ ('xy' ~ u.a)[2] }}{{ ('xy' ~ u.a)[0] }}", "st"},
      {"{{ ('x ' ~ u.a).split(' ')|join('-') }}",
       "ttsss"
       "tsss"},
      {"{{ ('x' ~ u.a).partition('C') | join }}", "tsssssss"},
      {"{{ ('  x' ~ u.a ~ '  ').strip() }}", "tsssssss"},
      {"{{ u.a.replace('C', 'c') }}", "sstssss"},
      {"{{ u.a|replace(' ', '') }}", "ssssss"},
      {"{{ 'xUy'.replace('U', u.a[:1]) }}", "tst"},
      {"{{ u.list|join(', ') }}", "stts"},
      {"{{ ', '.join(u.list) }}", "stts"},
      {"{{ 'x%sy' % u.list[0] }}", "tst"},
      {"{{ 'x%4sy' % u.list[0] }}",
       "tttts"
       "t"},
      {"{{ u.f % 'x' }}", "ts"},
      {"{{ 'x{}y{:>3}'.format(u.list[0], u.list[1]) }}",
       "tst"
       "tts"},
      {"{{ u.b.format('x') }}", "ts"},
      {"{{ '%c' % 65 }}{{ '%c' % u.n }}", "ss"},
      {"{{ 'x%(KEY)s' % u }}", "ts"},
      {"{{ u.a|upper }}{{ 'x'|upper }}{{ ('x' ~ u.a)|lower }}",
       "sssssss"
       "t"
       "ssssssss"},
      {"{{ u.a.title() }}{{ u.a|capitalize }}{{ u.a.swapcase() }}",
       "sssssss"
       "sssssss"
       "sssssss"},
      {"{{ ('x\n' ~ u.a)|indent(2) }}",
       "ts"
       "ttsssssss"},
      {"{{ u.a|truncate(5, true, 'x', 0) }}", "sssst"},
      {"{{ 'x'.center(3, u.list[0]) }}{{ u.list[0].rjust(2) }}",
       "sts"
       "ts"},
      {"{{ {'a': 'x'}|tojson }}{{ u.list|tojson }}",
       "tttttttttt"
       "ssssssssss"},
      {"{{ [1, 'x'] }}{{ {'a': u.list[0]} }}",
       "tttttttt"
       "ssssssssss"},
      {"{% for c in u.a[:2] %}{{ c }}-{% endfor %}", "stst"},
      {"{% for k in u %}{% if k == 'KEY' %}{{ k }}{% endif %}{% endfor %}", "sss"},
      {"{% for k, v in u.items() %}{% if k == 'KEY' %}{{ k ~ 'x' ~ v }}{% endif %}{% endfor %}", "sssts"},
      {"{% set ns = namespace(t='x') %}{% set ns.t = ns.t ~ u.list[0] %}{{ ns.t }}", "ts"},
      {"{% macro m(p) %}x{{ p }}{% endmacro %}{{ m(u.list[0]) }}", "ts"},
      {"{% set b %}x{{ u.list[0] }}{% endset %}{{ b }}", "ts"},
      {"{% filter upper %}x{{ u.list[0] }}{% endfilter %}", "ss"},
      {"{% macro m() %}{{ kwargs|list|last }}{% endmacro %}{{ m(**u) }}", "s"},
      {"{{ dict(**u)|list|first }}", "s"},
      {"{{ (u.list[0] ~ '<')|e }}{{ u.list[0]|urlencode }}",
       "sssss"
       "s"},
      {"{{ u.list[0] * 3 }}{{ ('x' ~ u.list[0]) * 2 }}",
       "sss"
       "tsts"},
      {"{{ u.n }}{{ u.n ~ u.list[0] }}",
       "tt"
       "tts"},
      {"{{ u.list[0]|default('x') }}{{ u.none|default('x') }}", "st"},
      {"{{ joiner(u.list[0])() }}{% set j = joiner(u.list[0]) %}{{ j() }}{{ j() }}", "s"},
      {"{{ u.a.splitlines()|first }}{{ (u.a ~ '\nx').splitlines()|last }}",
       "sssssss"
       "t"},
      {"{{ 'abc'.removeprefix('a') }}{{ u.a.removesuffix('DEF') }}{{ '5'.zfill(3) }}",
       "tt"
       "ssss"
       "ttt"},
      {"{{ strftime_now('x') }}{{ strftime_now(u.list[0]) }}", "ts"},
      {"{{ u.list|map('upper')|join }}{{ u.list|sort|join }}{{ u.list|unique|join }}",
       "ss"
       "ss"
       "ss"},
      {"{{ u.a|trim }}{{ u.a|string }}{{ (u.a|safe)[:1] }}",
       "sssssss"
       "sssssss"
       "s"},
      {"{{ u.list|reverse|join('x') }}{{ u.list|batch(1)|map('first')|join }}",
       "sts"
       "ss"},
  };
  for (const auto& [source, expected] : cases) {
    const SourcedText found = render(source, data);
    EXPECT_EQ(letters(found), expected) << source << " gave " << found.bytes;
  }
}

/// Strings of a caller end in a character that no template writes: wherever it is found again, it is the caller's.
TEST(Origins, NoTemplateMakesACallersTextItsOwn) {
  constexpr std::string_view kMark = "\uE000";
  size_t marks = 0;
  for (const Case& each : golden_cases(false)) {
    const Json input = changed(each.input, [&](const std::string& text) { return text + std::string(kMark); });
    std::vector<Variable> variables;
    for (const auto& [name, value] : input.items()) variables.push_back({name, &value, Origin::kData});
    SourcedText found;
    try {
      found = Template::parse(each.source, each.name).render(variables);
    } catch (const Error&) {
      continue;  // it refuses the changed text
    }
    for (size_t at = 0; (at = found.bytes.find(kMark, at)) != std::string::npos; at += kMark.size(), ++marks) {
      for (size_t i = 0; i < kMark.size(); ++i) {
        ASSERT_EQ(found.origins.greatest(at + i, at + i + 1), Origin::kData) << each.name << ": " << found.bytes;
      }
    }
  }
  EXPECT_GE(marks, 1000U);
}

}  // namespace
}  // namespace ashlar::origins
