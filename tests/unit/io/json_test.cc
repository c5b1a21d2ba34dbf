// SPDX-License-Identifier: Apache-2.0
#include "io/json.h"

#include <random>

#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

Json parse(const std::string& text) { return parse_json(text, "some.json"); }

TEST(Json, AgreesWithTheLibrarysOwnParser) {
  for (const char* text :
       {"null", "true", "-5", "18446744073709551615", "1.5e3", "\"\\u00e9\\n\"", "[]", "{}", "[[],{},[{}]]",
        R"({"b":1,"a":{"z":[1,-2,3.25,"x",null,false]},"":{}})", "  [ 1 , 2 ]  ", R"({"a":{"a":{"a":1}}})"}) {
    EXPECT_EQ(parse(text), Json::parse(text)) << text;
    EXPECT_EQ(parse(text).dump(), Json::parse(text).dump()) << text;  // and in the same order
  }
}

TEST(Json, AgreesOnDamagedText) {
  const std::string good = R"({"b":[1,-2.5,{"c":"\u00e9x"}],"a":{"d":null,"e":[true,false]},"f":"g"})";
  std::mt19937 random(3);
  const std::string letters = "{}[],:\"0123456789-.eEtrufalsn\\ ";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (unsigned edits = 1 + random() % 2; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = letters[random() % letters.size()];
      } else {
        text.erase(at, 1);
      }
    }
    const bool valid = Json::accept(text);
    try {
      const Json found = parse(text);
      ASSERT_TRUE(valid) << text;
      ASSERT_EQ(found, Json::parse(text)) << text;
      ++accepted;
    } catch (const Error& error) {
      ASSERT_TRUE(!valid || std::string(error.what()).find("repeats") != std::string::npos) << text;
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(Json, RefusesWithTheFileAndThePlace) {
  expect_error([] { parse(""); }, {"[json]", "some.json", "not valid JSON: it is empty"});
  expect_error([] { parse("[1,]"); }, {"some.json", "byte 4 of 4"});
  expect_error([] { parse("[1] 2"); }, {"byte 5 of 5"});
  expect_error([] { parse("1e999"); }, {"not valid JSON", "number overflow"});
  expect_error([] { parse("\"\xff\""); }, {"not valid JSON"});
  expect_error([] { parse("\"\\ud800\""); }, {"not valid JSON"});
  expect_error([] { parse(std::string("[1]\0", 4)); }, {"byte 4 of 4", "zero byte"});
  expect_error([] { parse("NaN"); }, {"not valid JSON"});
  expect_error([] { parse(R"({"a":1,"b":2,"a":3})"); }, {"repeats the key \"a\""});
  expect_error([] { parse(R"([{"x":{"\u0061":1,"a":3}}])"); }, {"repeats the key \"a\""});
}

TEST(Json, TheLastOfRepeatedKeysHoldsWhereAsked) {
  for (const char* text : {R"({"a":1,"b":2,"a":3})", R"([{"x":{"\u0061":1,"b":{"c":0,"c":1},"a":3}}, {}])", "{}",
                           R"({"a":[1],"a":{"b":1},"c":0,"a":[2,3],"c":4})"}) {
    EXPECT_EQ(parse_json(text, "f", RepeatedKeys::kLastHolds).dump(), Json::parse(text).dump()) << text;
  }
}

/// A square of the members would take hours.
TEST(Json, IsNearLinearInMembers) {
  std::string text = "{\"a\":[";
  for (int i = 0; i < 200'000; ++i) text += "{\"k\":{}},";
  text += "0]";
  for (int i = 0; i < 200'000; ++i) text += ",\"" + std::to_string(i) + "\":{}";
  EXPECT_EQ(parse(text + "}").size(), 200'001U);
  EXPECT_EQ(parse_json(text + ",\"7\":1}", "f", RepeatedKeys::kLastHolds).size(), 200'001U);
}

TEST(Json, SaysOfWhatIsCutThatItEnds) {
  for (const std::string text : {" ", "{", "[1", "[1,", "\"a", "\"\\u00", "-", "tru", "{\"a\": 1", "{\"a\"", "1e"}) {
    const std::string size = std::to_string(text.size());
    expect_error([&] { parse(text); }, {"not valid JSON at byte " + size + " of " + size, "ends too early"});
  }
}

TEST(Json, NestsToSixtyFourLevels) {
  EXPECT_NO_THROW(parse(std::string(64, '[') + std::string(64, ']')));
  expect_error([] { parse(std::string(65, '[') + std::string(65, ']')); }, {"nested deeper than 64"});
  expect_error([] { parse(std::string(10000000, '[')); }, {"nested deeper than 64"});
}

TEST(JsonFields, NameFieldFoundAndExpected) {
  const Json root =
      parse(R"({"n":5,"big":18446744073709551615,"f":2.5,"s":"x","b":true,"l":[1,2],"o":{"k":1},"z":null})");
  const JsonFields fields(root, "c.json", "config");
  EXPECT_EQ(fields.integer("n", 0, 5), 5);
  EXPECT_EQ(fields.integer("none", 0, 5, 3), 3);
  EXPECT_EQ(fields.integer("z", 0, 5, 3), 3);  // null is absent
  EXPECT_FALSE(fields.has("z"));
  EXPECT_EQ(fields.number("f", 0, 10), 2.5);
  EXPECT_EQ(fields.number("n", 0, 10), 5.0);
  EXPECT_EQ(fields.number("none", 0, 10, 7.0), 7.0);
  EXPECT_EQ(fields.integers("l", 1, 2), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(fields.object("o").integer("k", 0, 9), 1);
  expect_error([&] { fields.integer("n", 0, 4); }, {"[config]", "c.json", "\"n\"", "from 0 to 4", "found 5"});
  expect_error([&] { fields.integer("none", 0, 4); }, {"none", "found nothing"});
  expect_error([&] { fields.integer("big", 0, INT64_MAX); }, {"big", "18446744073709551615"});
  expect_error([&] { fields.integer("f", 0, 4); }, {"\"f\"", "2.5"});
  expect_error([&] { fields.number("s", 0, 1); }, {"\"s\"", "a number from 0 to 1", "\"x\""});
  expect_error([&] { fields.number("f", 0, 1); }, {"\"f\"", "a number from 0 to 1", "2.5"});
  expect_error([&] { fields.boolean("n", false); }, {"\"n\"", "true or false"});
  expect_error([&] { fields.string("n"); }, {"\"n\"", "a string"});
  expect_error([&] { fields.integers("l", 0, 1); }, {"\"l\"", "from 0 to 1", "[1,2]"});
  expect_error([&] { fields.integers("n", 0, 1); }, {"\"n\"", "a list of integers"});
  expect_error([&] { fields.strings("l"); }, {"\"l\"", "a list of strings"});
  expect_error([&] { fields.object("l"); }, {"\"l\"", "an object"});
  expect_error([&] { JsonFields(root["l"], "c.json", "config"); }, {"c.json", "object", "array"});
}

TEST(JsonFields, IntegersBeyondInt64AreRefused) {
  const Json root = parse(R"({"l":[18446744073709551615],"m":[9223372036854775808]})");
  const JsonFields fields(root, "c.json", "config");
  expect_error([&] { fields.integers("l", -5, 5); }, {"\"l\""});
  expect_error([&] { fields.integers("m", INT64_MIN, 5); }, {"\"m\""});
}

TEST(ForMessage, CutsAndReplaces) {
  EXPECT_EQ(for_message("model.layers.0.weight"), "model.layers.0.weight");
  EXPECT_EQ(for_message("a\x1b[2J\n\x7f"), "a?[2J??");
  EXPECT_EQ(for_message("a\xc2\x9b"
                        "2J\xc2\x80\xc2\x9f\xc2\xa0\xc2"),
            "a?2J??\xc2\xa0\xc2");  // C1 controls; not the space without a break, nor what is cut off
  EXPECT_EQ(for_message(std::string(100, 'x')), std::string(100, 'x'));
  EXPECT_EQ(for_message(std::string(101, 'x')), std::string(100, 'x') + "...");
  EXPECT_EQ(for_message(std::string(99, 'x') + "\xe2\x82\xac" + "y"), std::string(99, 'x') + "\xe2\x82\xac...");
  EXPECT_LT(for_message(std::string(100000, '\x80')).size(), 120u);
}

TEST(ReadJsonFile, NamesWhatIsWrongWithTheFile) {
  const TempFolder folder;
  expect_error([&] { read_json_file(folder.path() / "no.json"); }, {"no.json", "cannot open"});
  expect_error([&] { read_json_file(folder.path()); }, {folder.path().string(), "regular file"});
  expect_error([&] { read_json_file(folder.path() / std::string(300, 'n')); }, {});
  const auto path = folder.write("big.json", "");
  std::filesystem::resize_file(path, (64 << 20) + 1);
  expect_error([&] { read_json_file(path); }, {"big.json", "67108865 bytes", "at most 67108864"});
}

}  // namespace
}  // namespace ashlar::testing
