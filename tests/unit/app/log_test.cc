// SPDX-License-Identifier: Apache-2.0
#include "app/serve/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <sstream>
#include <thread>

#include "app/line_writer.h"
#include "session/terminal.h"

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

std::string utf8(uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// Control characters, line separators and marks of direction as Unicode lists them (categories Cc, Zl, Zp and the
// property Bidi_Control), and their neighbours, which are text.
TEST(Log, NothingRawTurnsATerminalOrItsReader) {
  std::vector<uint32_t> steer{0x7F, 0x61C, 0x200E, 0x200F, 0x2028, 0x2029};
  for (uint32_t code = 1; code < 0x20; ++code) steer.push_back(code);
  for (uint32_t code = 0x80; code < 0xA0; ++code) steer.push_back(code);
  for (uint32_t code = 0x202A; code <= 0x202E; ++code) steer.push_back(code);
  for (uint32_t code = 0x2066; code <= 0x2069; ++code) steer.push_back(code);
  std::string text, harmless;
  for (const uint32_t code : steer) text += "a" + utf8(code);
  for (const uint32_t code : {0x7EU, 0xA0U, 0x61BU, 0x61DU, 0x200DU, 0x2010U, 0x2027U, 0x202FU, 0x2065U, 0x206AU}) {
    harmless += utf8(code);
  }
  const auto json = lines_of("json", "info", [&](Log& log) {
    log.write(LogLevel::kInfo, text + harmless, {{"key", text}, {"list", {text}}});
  });
  const auto plain = lines_of("text", "info", [&](Log& log) {
    log.write(LogLevel::kInfo, text + harmless, {{"key", text}, {"list", {text}}});
  });
  ASSERT_EQ(json.size(), 1U);
  ASSERT_EQ(plain.size(), 1U);
  for (const uint32_t code : steer) {
    EXPECT_THAT(json[0], Not(HasSubstr(utf8(code)))) << code;
    EXPECT_THAT(plain[0], Not(HasSubstr(utf8(code)))) << code;
  }
  EXPECT_EQ(Json::parse(json[0])["message"], text + harmless);
  EXPECT_EQ(Json::parse(json[0])["list"][0], text);
  EXPECT_THAT(json[0], HasSubstr(harmless));
  EXPECT_THAT(plain[0], HasSubstr(harmless));
}

struct Pipe {
  Pipe() { EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0); }
  ~Pipe() {
    close(fds[0]);
    close(fds[1]);
  }
  int fds[2];
};

// What can be read within a moment, or until the text holds `until`.
std::string read_all(int fd, const std::string& until) {
  std::string out;
  pollfd item{fd, POLLIN, 0};
  char bytes[65536];
  while (out.find(until) == std::string::npos && poll(&item, 1, 10'000) > 0) {
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n <= 0) break;
    out.append(bytes, static_cast<size_t>(n));
  }
  return out;
}

// Were this to wait for the reader, it would wait for ever.
TEST(Log, AFullPipeStopsNobody) {
  for (const std::string format : {"text", "json"}) {
    Pipe pipe;
    auto log = std::make_unique<Log>(LogOptions{format, "info"}, pipe.fds[1]);
    constexpr int kLines = 3 * LineWriter::kMaxQueued / 100'000;
    const std::string filler(100'000, 'x');
    int written = 0;
    for (; written < kLines; ++written) log->write(LogLevel::kInfo, "line " + std::to_string(written) + "; " + filler);
    std::string text;
    while (text.find(" lines of this log are lost") == std::string::npos) {  // reported as soon as there is room
      log->write(LogLevel::kInfo, "line " + std::to_string(written++) + "; ");
      pollfd item{pipe.fds[0], POLLIN, 0};
      char bytes[65536];
      if (poll(&item, 1, 10) > 0) text.append(bytes, static_cast<size_t>(read(pipe.fds[0], bytes, sizeof bytes)));
    }
    text += read_all(pipe.fds[0], "line " + std::to_string(written - 1) + "; ");
    int present = 0;
    size_t from = 0;
    for (int i = 0; i < written; ++i) {
      const size_t at = text.find("line " + std::to_string(i) + "; ", from);
      if (at == std::string::npos) continue;
      ++present;
      from = at;
    }
    EXPECT_LT(present, written);
    EXPECT_THAT(text, HasSubstr(std::to_string(written - present) + " lines of this log are lost"));
  }
}

TEST(Log, EndsThoughNobodyReads) {
  Pipe pipe;
  {
    Log log({"text", "info"}, pipe.fds[1]);
    log.write(LogLevel::kInfo, std::string(1'000'000, 'x'));
  }
  EXPECT_EQ(read_all(pipe.fds[0], "x").substr(0, 2), "20") << "what fits is written";
}

TEST(LineWriter, LinesOfManyThreadsStayWholeAndInOrder) {
  Pipe pipe;
  LineWriter writer(pipe.fds[1]);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&writer, t] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE(writer.add(std::to_string(t) + " " + std::to_string(i) + " " + std::string(100, 'y') + "\n"));
      }
    });
  }
  std::string text;
  while (std::count(text.begin(), text.end(), '\n') < 800) text += read_all(pipe.fds[0], "\n");
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(text);
  int next[4] = {};
  for (int t, i; lines >> t >> i;) {
    std::string filler;
    lines >> filler;
    EXPECT_EQ(i, next[t]++);
    EXPECT_EQ(filler, std::string(100, 'y'));
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
