// SPDX-License-Identifier: Apache-2.0
// The interface of Template: messages, clock, concurrency.

#include "text/template/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace ashlar {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string error_of(const std::string& source, const Json& variables = Json::object()) {
  try {
    Template::parse(source, "t.jinja").render(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Template, ErrorsNameTheLineAndWhatWasFound) {
  EXPECT_EQ(error_of("a\nb\n{{ x y }}"), "[template] t.jinja:3: unexpected 'y', expected '}}'");
  EXPECT_EQ(error_of("{% if x %}\n\n{% endfor %}"), "[template] t.jinja:3: unknown tag 'endfor'");
  EXPECT_THAT(error_of("\n{% for x in y %}\nabc"), HasSubstr("'for' of line 2 is not closed, expected 'endfor'"));
  EXPECT_EQ(error_of("\n{{ a.b }}"), "[template] t.jinja:2: 'a' is undefined");
  EXPECT_EQ(error_of("{{ a.b.c }}", {{"a", {{"x", 1}}}}), "[template] t.jinja:1: 'dict object' has no attribute 'b'");
  EXPECT_EQ(error_of("{{ 'a' + 1 }}"), "[template] t.jinja:1: unsupported operand type(s) for +: 'str' and 'int'");
  EXPECT_EQ(error_of("\n\n{{ raise_exception('Roles must alternate') }}"),
            "[template] t.jinja:3: the template refuses this conversation: Roles must alternate");
  EXPECT_EQ(error_of("{{ x|nope }}"), "[template] t.jinja:1: no filter named 'nope'");
  EXPECT_EQ(error_of("{{ x is nope }}"), "[template] t.jinja:1: no test named 'nope'");
  EXPECT_THAT(error_of("{% include 'x' %}"), HasSubstr("'include' is not supported"));
}

/// Text of the template and the conversation in an error is for a terminal, a log and a client.
TEST(Template, ErrorsQuoteShortlyAndPlainly) {
  EXPECT_EQ(error_of("{{ raise_exception('\\x1b]0;owned\\x07\\x1b[2J\n') }}"),
            "[template] t.jinja:1: the template refuses this conversation: ?]0;owned??[2J?");
  const std::string wild(100'000, '\x1b');
  for (const std::string& error :
       {error_of("{{ raise_exception(x) }}", {{"x", wild}}), error_of("{{ {}[x].y }}", {{"x", wild}}),
        error_of("{{ " + wild + " }}"), error_of("{{ x|" + std::string(100'000, 'f') + " }}"),
        error_of("{{ 'a'.format(**{}) ~ '{" + wild + "}'.format() }}")}) {
    EXPECT_THAT(error, HasSubstr("[template] t.jinja:1: "));
    EXPECT_LT(error.size(), 600U) << error.substr(0, 200);
    EXPECT_THAT(error, Not(HasSubstr("\x1b"))) << error.substr(0, 200);
  }
  // What honest templates say stays whole.
  const std::string reason(300, 'r');
  EXPECT_THAT(error_of("{{ raise_exception(x) }}", {{"x", reason}}), HasSubstr(reason));
}

TEST(Template, TheClockIsTheOneGiven) {
  const auto clock = [] {
    std::tm time{};
    time.tm_year = 99;
    time.tm_mon = 11;
    time.tm_mday = 31;
    return time;
  };
  const Template t = Template::parse("{{ strftime_now('%d %b %Y') }}", "clock");
  EXPECT_EQ(t.render(Json::object(), {}, clock), "31 Dec 1999");
  EXPECT_EQ(t.render(Json::object()).size(), 11u);  // the machine's own
}

TEST(Template, VariablesHideGlobalsAndMayBeNull) {
  EXPECT_EQ(Template::parse("{{ range }}", "t").render({{"range", 7}}), "7");
  EXPECT_EQ(Template::parse("x{{ a }}", "t").render(nullptr), "x");
}

TEST(Template, OneTemplateServesManyThreads) {
  const Template t = Template::parse(
      "{% macro f(n) %}{{ n * 2 }}{% endmacro %}{% set ns = namespace(s=0) %}"
      "{% for i in range(200) %}{% set ns.s = ns.s + f(i)|int + k %}{% endfor %}{{ ns.s }}",
      "threads");
  std::vector<std::string> results(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i) threads.emplace_back([&, i] { results[i] = t.render({{"k", i}}); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], std::to_string(39800 + 200 * i));
}

TEST(Template, ALongConversationStaysWithinTheLimits) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(2000, 'w')}});
  const std::string source =
      "{% for m in messages[::-1] %}{% if m.content is string and m.content.startswith('x') %}!{% endif %}{% endfor %}"
      "{% for m in messages %}{{ '<' + m.role + '>\\n' + m.content|trim + '\\n' }}{% endfor %}";
  const std::string output = Template::parse(source, "long").render({{"messages", messages}});
  EXPECT_EQ(output.size(), 2000u * 2002u + 1000u * (6u + 11u));
}

}  // namespace
}  // namespace ashlar
