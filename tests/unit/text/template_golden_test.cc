// SPDX-License-Identifier: Apache-2.0
// Every template of tests/data/templates against what Python's jinja2 made of it
// (tools/goldens/make_template_goldens.py).

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "io/json.h"
#include "text/template/template.h"

namespace ashlar {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// 4 March 2025, 09:05:07, a Tuesday: the moment the goldens were made at.
std::tm golden_time() {
  std::tm time{};
  time.tm_year = 125;
  time.tm_mon = 2;
  time.tm_mday = 4;
  time.tm_hour = 9;
  time.tm_min = 5;
  time.tm_sec = 7;
  time.tm_wday = 2;
  time.tm_yday = 62;
  return time;
}

TEST(TemplateGolden, AllCases) {
  const std::string folder = std::string(ASHLAR_TEST_DATA) + "/templates/";
  const Json goldens = Json::parse(read(folder + "goldens.json"));
  std::size_t errors = 0;
  for (const Json& golden : goldens["cases"]) {
    const bool from_file = golden.contains("file");
    const std::string name = golden[from_file ? "file" : "feature"].get<std::string>();
    const std::string input = golden["input"].get<std::string>();
    SCOPED_TRACE(name + " with " + input);
    const std::string source =
        from_file ? read(folder + "families/" + name) : goldens["features"][name].get<std::string>();
    const Json& expected = golden["output"];
    try {
      const std::string output = Template::parse(source, name).render(goldens["inputs"][input], {}, golden_time);
      if (expected.is_null()) {
        ADD_FAILURE() << "jinja2 refuses this, here it gave:\n" << output;
      } else {
        EXPECT_EQ(output, expected.get<std::string>());
      }
    } catch (const Error& error) {
      ++errors;
      EXPECT_TRUE(expected.is_null()) << error.what() << "\nexpected:\n" << expected;
    }
  }
  EXPECT_GE(goldens["cases"].size(), 300u);
  EXPECT_GE(errors, 100u);
}

}  // namespace
}  // namespace ashlar
