#include "app/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "app/terminal.h"

namespace ashlar {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

// What a log with these options writes on stderr.
std::vector<std::string> lines_of(const std::string& format, const std::string& level,
                                  const std::function<void(Log&)>& work) {
  testing::internal::CaptureStderr();
  {
    Log log({format, level});
    work(log);
  }
  std::istringstream text(testing::internal::GetCapturedStderr());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Ends of lines of every kind, terminal escapes, bytes that are no UTF-8, quotes, patterns of the library.
const std::vector<std::string> kHostile = {"a\nb",
                                           "a\r\nb",
                                           "\x1b[31mred\x1b[0m",
                                           "bell\a",
                                           "nul\0byte",
                                           "\xFF\xFE bad",
                                           "quote\"s",
                                           "back\\slash",
                                           "",
                                           "%v %n {} {0}",
                                           "\xC2\x9B"
                                           "31m",
                                           "a\xE2\x80\xA8"
                                           "b",
                                           "x=y",
                                           "del\x7F",
                                           "2026-01-01 info forged"};

TEST(Log, TextIsOneLineARecordWhateverStandsInIt) {
  for (const std::string& text : kHostile) {
    const auto lines = lines_of("text", "info", [&](Log& log) {
      log.write(LogLevel::kInfo, "message " + text, {{"value", text}, {"list", {text, 5}}});
    });
    ASSERT_EQ(lines.size(), 1U) << testing::PrintToString(text);
    for (const unsigned char c : lines[0]) EXPECT_TRUE(c >= 0x20 && c != 0x7F) << testing::PrintToString(lines[0]);
    EXPECT_THAT(lines[0], Not(HasSubstr("\xC2\x9B")));
    EXPECT_THAT(lines[0], Not(HasSubstr("\xE2\x80\xA8")));
  }
}

TEST(Log, TextHasTimeLevelMessageAndFields) {
  const auto lines = lines_of("text", "info", [](Log& log) {
    log.write(LogLevel::kWarn, "request", {{"id", "abc"}, {"status", 200}, {"why", "two words"}, {"key", "a=b"}});
  });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], MatchesRegex("[0-9-]{10} [0-9:.]{12} .*warn.* request id=abc status=200 why=\"two words\" "
                                     "key=\"a=b\""));
}

TEST(Log, JsonLinesParseAndKeepTheText) {
  for (const std::string& text : kHostile) {
    const auto lines = lines_of("json", "info", [&](Log& log) {
      log.write(LogLevel::kError, text, {{"value", text}, {"level", "forged"}, {"message", "forged"}, {"time", "0"}});
    });
    ASSERT_EQ(lines.size(), 1U) << testing::PrintToString(text);
    const Json record = Json::parse(lines[0]);
    EXPECT_EQ(lines[0].find("\"time\":"), lines[0].rfind("\"time\":"));
    EXPECT_EQ(record["level"], "error");
    EXPECT_THAT(record["time"].get<std::string>(), MatchesRegex("....-..-..T..:..:......Z"));
    if (text.find('\xFF') == std::string::npos) {
      EXPECT_EQ(record["message"], text);
      EXPECT_EQ(record["value"], text);
    }
  }
}

TEST(Log, LevelsLeaveOutWhatIsBelow) {
  const auto all = [](Log& log) {
    for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}) {
      log.write(level, "x");
    }
  };
  EXPECT_EQ(lines_of("text", "debug", all).size(), 4U);
  EXPECT_EQ(lines_of("text", "info", all).size(), 3U);
  EXPECT_EQ(lines_of("json", "warn", all).size(), 2U);
  EXPECT_EQ(lines_of("json", "error", all).size(), 1U);
}

TEST(LogMessages, NotesForPeopleBecomeObjects) {
  LogOptions options;
  options.format = "json";
  testing::internal::CaptureStderr();
  log_messages(options);
  print_note("a note");
  print_warning("two\nlines");
  print_error("an error");
  redirect_messages(nullptr);
  std::istringstream lines(testing::internal::GetCapturedStderr());
  std::vector<std::string> levels;
  for (std::string line; std::getline(lines, line);) levels.push_back(Json::parse(line)["level"].get<std::string>());
  EXPECT_EQ(levels, (std::vector<std::string>{"info", "warn", "error"}));
}

}  // namespace
}  // namespace ashlar
