// SPDX-License-Identifier: Apache-2.0
// Hostile templates: each must end in an Error that says why, soon, and leave nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "text/template/template.h"
#include "unit/text/colliding_texts.h"
#include "unit/text/text_comparisons.h"

namespace ashlar {
namespace {

using testing::HasSubstr;

std::string repeat(const std::string& piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

/// The message of the error that `source` ends in, empty when it ends in none.
std::string limit_error_of(const std::string& source, const RenderLimits& limits = {},
                           const Json& variables = Json::object()) {
  try {
    Template::parse(source, "hostile").render(variables, limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Hostile {
  const char* name;
  std::string source;
  const char* message;  ///< part of the error
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

class TemplateLimits : public testing::TestWithParam<Hostile> {};

TEST(TemplateNumbers, ThoseBeyondSixtyThreeBitsAreFloats) {
  const Json variables = Json::parse(R"({"n": 18446744073709551615, "m": 9223372036854775807})");
  EXPECT_EQ(Template::parse("{{ n }} {{ {'maximum': n} | tojson }} {{ m }}", "numbers").render(variables, {}),
            "1.8446744073709552e+19 {\"maximum\": 1.8446744073709552e+19} 9223372036854775807");
}

TEST_P(TemplateLimits, EndsInAClearErrorSoon) {
  const auto start = std::chrono::steady_clock::now();
  const std::string message = limit_error_of(GetParam().source);
  EXPECT_THAT(message, HasSubstr(GetParam().message));
  EXPECT_THAT(message, HasSubstr("[template] hostile:"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // a sanitizer build is slow
}

const std::string kNineLoops = repeat("{% for a in range(100) %}", 9) + "x" + repeat("{% endfor %}", 9);

INSTANTIATE_TEST_SUITE_P(
    All, TemplateLimits,
    testing::Values(
        Hostile{"nested_loops", kNineLoops, "evaluation steps"},
        Hostile{"silent_loops", repeat("{% for a in range(99999) %}", 3) + repeat("{% endfor %}", 3),
                "evaluation steps"},
        Hostile{"macro_recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested evaluations"},
        Hostile{"mutual_recursion",
                "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
                "nested evaluations"},
        Hostile{"exponential_recursion",
                "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
                "evaluation steps"},
        Hostile{"caller_recursion", "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
                "nested evaluations"},
        Hostile{"default_recursion", "{% macro f(a=f()) %}{% endmacro %}{{ f() }}", "nested evaluations"},
        Hostile{"loop_recursion", "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}", "nested evaluations"},
        Hostile{"loop_condition_recursion",
                "{% set ns = namespace() %}{% for x in range(9000) if x < 1 or ns.l.length %}{% set ns.l = loop %}{% "
                "endfor %}",
                "nested evaluations"},
        Hostile{"parentheses", "{{ " + repeat("(", 100000) + "1" + repeat(")", 100000) + " }}", "levels of nesting"},
        Hostile{"brackets", "{{ " + repeat("[", 100000) + repeat("]", 100000) + " }}", "levels of nesting"},
        Hostile{"braces", "{{ " + repeat("{1:", 100000) + "1" + repeat("}", 100000) + " }}", "levels of nesting"},
        Hostile{"nots", "{{ " + repeat("not ", 100000) + "1 }}", "levels of nesting"},
        Hostile{"minuses", "{{ " + repeat("- ", 100000) + "1 }}", "levels of nesting"},
        Hostile{"sums", "{{ 1" + repeat(" + 1", 100000) + " }}", "levels of nesting"},
        Hostile{"ors", "{{ 0" + repeat(" or 0", 100000) + " }}", "levels of nesting"},
        Hostile{"powers", "{{ 1" + repeat("**1", 100000) + " }}", "levels of nesting"},
        Hostile{"filters", "{{ 1" + repeat("|abs", 100000) + " }}", "levels of nesting"},
        Hostile{"attributes", "{{ a" + repeat(".a", 100000) + " }}", "levels of nesting"},
        Hostile{"calls", "{{ a" + repeat("()", 100000) + " }}", "levels of nesting"},
        Hostile{"conditions", "{{ 1" + repeat(" if 1", 100000) + " }}", "levels of nesting"},
        Hostile{"else_conditions", "{{ " + repeat("1 if 1 else ", 50000) + "1 }}", "levels of nesting"},
        Hostile{"nested_ifs", repeat("{% if 1 %}", 50000), "levels of nesting"},
        Hostile{"nested_targets", "{% set " + repeat("(", 100000) + "a" + repeat(")", 100000) + " = 1 %}",
                "levels of nesting"},
        Hostile{"nested_values",
                "{% set ns = namespace(x=1) %}{% for i in range(9000) %}{% set ns.x = [ns.x] %}{% endfor %}",
                "nested values"},
        Hostile{"nested_dicts",
                "{% set ns = namespace(x=1) %}{% for i in range(9000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
                "nested values"},
        Hostile{
            "nested_iterators",
            "{% set ns = namespace(x=1) %}{% for i in range(9000) %}{% set ns.x = [ns.x]|map('default') %}{% endfor %}",
            "nested values"},
        Hostile{"nested_methods",
                "{% set ns = namespace(x=[]) %}{% for i in range(9000) %}{% set ns.x = [ns.x.count] %}{% set ns.x = "
                "[ns.x] %}{% endfor %}",
                "nested values"},
        Hostile{"nested_loop_objects",
                "{% set ns = namespace(x=1) %}{% for i in range(9000) %}{% for y in [ns.x] %}{% set ns.x = loop %}{% "
                "endfor %}{% endfor %}",
                "nested values"},
        Hostile{"nested_cyclers",
                "{% set ns = namespace(x=1) %}{% for i in range(9000) %}{% set ns.x = cycler(ns.x) %}{% endfor %}",
                "nested values"},
        Hostile{"self_namespace", "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}", "nested values"},
        Hostile{"doubling_print",
                "{% set ns = namespace(x=[1]) %}{% for i in range(150) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
                "ns.x }}",
                "exceeded"},
        Hostile{"doubling_json",
                "{% set ns = namespace(x=[1]) %}{% for i in range(150) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
                "ns.x|tojson }}",
                "exceeded"},
        Hostile{"doubling_compare",
                "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(150) %}{% set ns.x = [ns.x, ns.x] %}{% set "
                "ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
                "exceeded"},
        Hostile{"doubling_key",
                "{% set ns = namespace(x=(1,)) %}{% for i in range(150) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ "
                "{ns.x: 1} }}",
                "exceeded"},
        Hostile{"string_doubling",
                "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
                "bytes in a string"},
        Hostile{"string_tilde",
                "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
                "bytes in a string"},
        Hostile{"string_replace",
                "{% set ns = namespace(s='xx') %}{% for i in range(64) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% "
                "endfor %}",
                "bytes in a string"},
        Hostile{"string_join", "{{ ('x' * 10000).join('x' * 10000) }}", "bytes in a string"},
        Hostile{"string_repeat", "{{ 'x' * 9223372036854775807 }}", "bytes in a string"},
        Hostile{"string_repeat_wide", "{{ 'abcdefgh' * 4611686018427387904 }}", "bytes in a string"},
        Hostile{"list_repeat", "{{ [1, 2, 3] * 9223372036854775807 }}", "bytes of work"},
        Hostile{"list_doubling",
                "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
                "bytes of work"},
        Hostile{"kept_strings",
                "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ['x' * 9000000, ns.l] %}{% "
                "endfor %}",
                "exceeded"},
        Hostile{"format_width", "{{ '%999999999s' % 'x' }}", "bytes in a string"},
        Hostile{"format_star", "{{ '%*d' % (9223372036854775807, 1) }}", "bytes in a string"},
        Hostile{"format_negative_star", "{{ '%*d' % (-9223372036854775807 - 1, 1) }}", "bytes in a string"},
        Hostile{"format_huge_width", "{{ '%99999999999999999999s' % 'x' }}", "numbers in a format"},
        Hostile{"format_precision", "{{ '%.999999999f' % 1 }}", "precision"},
        Hostile{"format_int_precision", "{{ '%.999999999d' % 1 }}", "precision"},
        Hostile{"brace_width", "{{ '{:999999999}'.format('x') }}", "bytes in a string"},
        Hostile{"brace_precision", "{{ '{:.99999}'.format(1.5) }}", "precision"},
        Hostile{"brace_nesting", "{{ '{:{:{:{}}}}'.format(1, 2, 3, 4) }}", "recursion"},
        Hostile{"center", "{{ 'x'.center(9223372036854775807, '😀') }}", "bytes in a string"},
        Hostile{"indent", "{{ 'x'|indent(9223372036854775807, true) }}", "bytes in a string"},
        Hostile{"json_indent", "{{ [1]|tojson(indent=99999999) }}", "bytes in a string"},
        Hostile{"json_indent_deep", "{{ [[[[[[[[1]]]]]]]]|tojson(indent=9999999) }}", "bytes in a string"},
        Hostile{"batch_fill", "{{ [1]|batch(9223372036854775807, 'x')|list }}", "evaluation steps"},
        Hostile{"slice_count", "{{ [1]|slice(9223372036854775807)|list }}", "exceeded"},
        Hostile{"range", "{{ range(9223372036854775807) }}", "items in range()"},
        Hostile{"range_wide", "{{ range(-9223372036854775807 - 1, 9223372036854775807) }}", "items in range()"},
        Hostile{"range_step", "{{ range(0, 9223372036854775807, 1) }}", "items in range()"},
        Hostile{"range_slice", "{{ range(-9223372036854775807, 9223372036854775807, 4611686018427387904)[::4] }}",
                "overflow"},
        Hostile{"output", "{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{{ s }}{% endfor %}",
                "bytes of output"},
        Hostile{"overflow_add", "{{ 9223372036854775807 + 1 }}", "integer overflow"},
        Hostile{"overflow_sub", "{{ -9223372036854775807 - 2 }}", "integer overflow"},
        Hostile{"overflow_mul", "{{ 4611686018427387904 * 2 }}", "integer overflow"},
        Hostile{"overflow_pow", "{{ 10 ** 99 }}", "integer overflow"},
        Hostile{"overflow_negate", "{{ -(-9223372036854775807 - 1) }}", "integer overflow"},
        Hostile{"overflow_abs", "{{ (-9223372036854775807 - 1)|abs }}", "integer overflow"},
        Hostile{"overflow_div", "{{ (-9223372036854775807 - 1) // -1 }}", "integer overflow"},
        Hostile{"overflow_literal", "{{ 9223372036854775808 }}", "64 bits"},
        Hostile{"overflow_int_filter", "{{ '9223372036854775808'|int }}", "integer overflow"},
        Hostile{"overflow_float_to_int", "{{ 1e300|int }}", "64-bit integer"},
        Hostile{"mro", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"},
        Hostile{"globals", "{{ range.__globals__['os'] }}", "unsafe"},
        Hostile{"macro_internals", "{% macro f() %}{% endmacro %}{{ f.__call__.x }}", "unsafe"},
        Hostile{"truncated_escape", R"({{ '\x4' }})", "escape"},
        Hostile{"surrogate_escape", R"({{ '\ud83d' }})", "escape"},
        Hostile{"nul_source", std::string("{{ \0 }}", 7), "unexpected character"},
        Hostile{"bad_utf8", "{{ '\xff' }}", "UTF-8"},
        Hostile{"big_source", std::string((1u << 20) + 1, 'x'), "bytes of source"}),
    [](const auto& test) { return test.param.name; });

TEST(TemplateLimits, QuadraticSearchesStayLinear) {
  // A needle that almost matches everywhere.
  const std::string source =
      "{% set h = 'a' * 4000000 %}{% set n = 'a' * 2000000 ~ 'b' %}"
      "{{ n in h }}{{ h.find(n) }}{{ h.rfind('b' ~ 'a' * 2000000) }}{{ h.count(n) }}{{ h.split(n)|length }}";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Template::parse(source, "search").render(Json::object()), "False-1-101");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// A square of the members would be four million comparisons; an ordered index makes 24 for each of them at most.
TEST(TemplateLimits, MembersAreFoundHoweverTheirKeysWereChosen) {
  const std::vector<std::string> keys = test::colliding_texts(12);
#if defined(__GLIBCXX__) && defined(__x86_64__)
  ASSERT_EQ(std::hash<std::string>()(keys.front()), std::hash<std::string>()(keys.back()));
#endif
  Json::object_t members;
  members.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    static_cast<Json::object_t::Container&>(members).emplace_back(keys[i], i);  // without a look for the key
  }
  const Json variables = {{"d", std::move(members)}, {"k", keys.back()}};
  const Template parsed = Template::parse("{{ d|length }} {{ d[k] }}", "keys");
  const std::uint64_t before = test::text_comparisons();
  EXPECT_EQ(parsed.render(variables), "4096 4095");
  const std::uint64_t made = test::text_comparisons() - before;
  EXPECT_GT(made, keys.size() / 2);  // or nothing was counted
  EXPECT_LT(made, 60 * keys.size());
}

TEST(TemplateLimits, LimitsAreThoseGiven) {
  RenderLimits limits;
  limits.steps = 50;
  EXPECT_THAT(limit_error_of("{% for i in range(60) %}x{% endfor %}", limits),
              HasSubstr("limit of 50 evaluation steps"));
  limits = {};
  limits.output_bytes = 10;
  EXPECT_EQ(limit_error_of("0123456789", limits), "");
  EXPECT_THAT(limit_error_of("0123456789x", limits), HasSubstr("limit of 10 bytes of output"));
  limits = {};
  limits.string_bytes = 8;
  EXPECT_EQ(limit_error_of("{{ 'abcd' + 'efgh' }}", limits), "");
  EXPECT_THAT(limit_error_of("{{ 'abcd' + 'efghi' }}", limits), HasSubstr("limit of 8 bytes in a string"));
  limits = {};
  limits.range_items = 3;
  EXPECT_EQ(limit_error_of("{{ range(3) }}", limits), "");
  EXPECT_THAT(limit_error_of("{{ range(4) }}", limits), HasSubstr("limit of 3 items in range()"));
  limits = {};
  limits.depth = 5;
  EXPECT_THAT(limit_error_of("{{ [[[[[[1]]]]]] }}", limits), HasSubstr("limit of 5 nested evaluations"));
  limits = {};
  limits.work_bytes = 1000;
  EXPECT_THAT(limit_error_of("{{ 'x' * 2000 }}", limits), HasSubstr("limit of 1000 bytes of work"));
}

TEST(TemplateLimits, DeepAndOddVariablesAreRefused) {
  Json deep = 1;
  for (int i = 0; i < 300; ++i) deep = Json::array({deep});
  EXPECT_THAT(limit_error_of("x", {}, {{"deep", deep}}), HasSubstr("nested values"));
  EXPECT_THAT(limit_error_of("x", {}, Json::array()), HasSubstr("must be an object"));
  EXPECT_THAT(limit_error_of("x", {}, {{"raw", Json::binary({1, 2})}}), HasSubstr("JSON text"));
}

TEST(TemplateLimits, EveryPrefixOfATemplateParsesOrFailsCleanly) {
  const std::string source =
      "a{% for x, y in [(1, 'é')] if x is odd recursive %}{{- x|default('\\n', true)[::-1] ~ {'k': [1.5, "
      "none]}['k'][0] -}}"
      "{% elif %}{% else %}{# c #}{% endfor %}{% macro m(a, b=2) %}{{ caller(a) }}{% endmacro %}{% raw %}{{{% endraw %}"
      "{% call(q) m(*[1], **{}) %}{{ q }}{% endcall %}{% set ns.a = x %}{% filter upper %}b{% endfilter %}";
  for (std::size_t size = 0; size <= source.size(); ++size) {
    const std::string message = limit_error_of(source.substr(0, size));
    if (!message.empty()) {
      EXPECT_THAT(message, HasSubstr("[template] hostile:1: "));
    }
  }
}

}  // namespace
}  // namespace ashlar
