// SPDX-License-Identifier: Apache-2.0
// The files of packaging/ against what the program knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "app/command_line/config_file.h"
#include "app/serve/serve_options.h"
#include "server/service/metrics.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

const std::filesystem::path kPackaging = std::filesystem::path(ASHLAR_SOURCE_DIR) / "packaging";

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) out.insert((*it)[1]);
  return out;
}

ServeOptions parse_file(const std::filesystem::path& path, CLI::App& app) {
  ServeOptions options;
  add_serve_flags(app, options);
  std::vector<std::string> args = with_config_file(app, {"--config=" + path.string()});
  std::reverse(args.begin(), args.end());
  app.parse(args);
  return options;
}

TEST(Packaging, TheDashboardAsksForMetricsThatExist) {
  server::ServiceMetrics metrics;
  RequestStats stats;
  stats.drafted_at = {1};
  stats.accepted_at = {1};
  metrics.answer_ended(stats, "stop");
  const std::string exposition = metrics.write("m", EngineCounters{}, server::HttpCounters{}, 0);
  const std::set<std::string> known = matches(exposition, std::regex("(?:^|\n)([a-z]+:[a-z0-9_]+)\\{"));
  ASSERT_GT(known.size(), 20U);
  const Json dashboard = Json::parse(read(kPackaging / "grafana-dashboard.json"));
  std::set<std::string> asked;
  for (const Json& panel : dashboard["panels"]) {
    for (const Json& target : panel["targets"]) {
      const auto names = matches(target["expr"].get<std::string>(), std::regex("((?:vllm|ashlar):[a-z0-9_]+)"));
      EXPECT_FALSE(names.empty()) << panel["title"];
      asked.insert(names.begin(), names.end());
    }
  }
  EXPECT_GT(asked.size(), 15U);
  for (const std::string& name : asked) EXPECT_TRUE(known.contains(name)) << name;
}

TEST(Packaging, TheExampleOfSettingsIsValidAndChangesNothing) {
  CLI::App app("", "serve"), bare("", "serve");
  const ServeOptions from_file = parse_file(kPackaging / "ashlar.toml", app);
  ServeOptions defaults;
  add_serve_flags(bare, defaults);
  EXPECT_EQ(from_file.http.host, defaults.http.host);
  EXPECT_EQ(from_file.http.port, defaults.http.port);
  EXPECT_EQ(from_file.http.max_body_bytes, defaults.http.max_body_bytes);
  EXPECT_EQ(from_file.service.max_waiting_requests, defaults.service.max_waiting_requests);
  EXPECT_EQ(from_file.service.max_waiting_tokens, defaults.service.max_waiting_tokens);
  EXPECT_EQ(from_file.drain_s, defaults.drain_s);
  EXPECT_EQ(from_file.timeout_s, defaults.timeout_s);
}

TEST(Packaging, TheExampleHasEverySettingAndNoOther) {
  // With the comment signs in front of settings taken away all of them are valid.
  const std::string all =
      std::regex_replace(read(kPackaging / "ashlar.toml"), std::regex("(^|\n)# ([a-z-]+ = )"), "$1$2");
  const TempFolder folder;
  CLI::App app("", "serve");
  EXPECT_NO_THROW(parse_file(folder.write("all.toml", all), app));
  const std::set<std::string> keys = matches(all, std::regex("(?:^|\n)([a-z-]+) = "));
  EXPECT_TRUE(keys.contains("model"));
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional()) continue;
    const std::string name = option->get_lnames().front();
    const bool setting = name != "help" && name != "config" && name != "print-config";
    EXPECT_TRUE(!setting || keys.contains(name)) << name;
  }
}

// Words of a text, with the line ends that a backslash continues.
std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> out;
  std::istringstream words(text);
  for (std::string word; words >> word;) out.insert(word);
  return out;
}

// What stands between two texts, the first place where both are.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  const size_t end = begin == std::string::npos ? begin : text.find(after, begin + before.size());
  EXPECT_NE(end, std::string::npos) << before;
  return end == std::string::npos ? "" : text.substr(begin + before.size(), end - begin - before.size());
}

TEST(Packaging, TheImageIsBuiltFromWhatABuildNeeds) {
  const std::filesystem::path root = ASHLAR_SOURCE_DIR;
  const std::string docker = read(kPackaging / "Dockerfile");
  const std::string stage = between(docker, "AS build", "\nFROM ");
  const std::set<std::string> installed = words_of(between(stage, "--no-install-recommends \\", "&&"));
  const std::set<std::string> needed = words_of(between(read(root / "tools" / "install-deps"), "packages=(", ")"));
  ASSERT_GT(needed.size(), 10U);
  for (const std::string& package : needed) {
    const bool for_tests = package == "libgtest-dev" || package == "libgmock-dev";
    EXPECT_EQ(installed.contains(package), !for_tests) << package;
  }
  const std::set<std::string> copied = matches(stage, std::regex("\nCOPY ([a-z]+) [a-z]+"));
  // Folders that the build adds; those of the tests are indented, after the option that leaves them out.
  std::set<std::string> added = matches(read(root / "CMakeLists.txt"), std::regex("\nadd_subdirectory\\(([a-z]+)\\)"));
  ASSERT_TRUE(added.contains("src"));
  added.insert({"cmake", "include", "tools", "models"});
  EXPECT_EQ(copied, added);
  const std::set<std::string> let_through = matches(read(root / ".dockerignore"), std::regex("\n!([a-z]+)(?=\n)"));
  EXPECT_EQ(let_through, added);
}

TEST(Packaging, TheUnitHandsOverWhatOnlyRootMayRead) {
  const std::string unit = read(kPackaging / "ashlar.service");
  EXPECT_THAT(unit, testing::HasSubstr("\nRestartPreventExitStatus=2\n"));
  // Read in [Unit] only. With the usual limit of 5 starts in 10 s and a pause of 2 s it would never be met.
  const std::string head = between(unit, "[Unit]\n", "\n[Service]\n");
  EXPECT_THAT(head, testing::HasSubstr("\nStartLimitIntervalSec=1h\n"));
  EXPECT_THAT(head, testing::HasSubstr("\nStartLimitBurst=20"));
  EXPECT_THAT(unit, testing::HasSubstr("\nEnvironment=HF_HUB_CACHE=%S/ashlar/hub\n"));
  // Each credential under a variable that the server knows, in the unit as in the page for those who run it.
  const std::string page = read(std::filesystem::path(ASHLAR_SOURCE_DIR) / "docs" / "serving.md");
  CLI::App app("", "serve");
  ServeOptions options;
  add_serve_flags(app, options);
  std::set<std::string> variables;
  for (const CLI::Option* option : app.get_options()) variables.insert(option->get_envname());
  for (const std::string& text : {unit, page}) {
    const std::set<std::string> handed = matches(text, std::regex("LoadCredential=([a-z.]+):/etc/ashlar/"));
    EXPECT_EQ(handed, (std::set<std::string>{"keys", "cert.pem", "key.pem"}));
    EXPECT_EQ(matches(text, std::regex("=%d/([a-z.]+)")), handed);
    for (const std::string& name : matches(text, std::regex("(ASHLAR_[A-Z_]+)=%d/"))) {
      EXPECT_TRUE(variables.contains(name)) << name;
    }
  }
}

TEST(Packaging, TheImageRunsWithTheLibrariesThatTheProgramIsLinkedTo) {
  const std::string docker = read(kPackaging / "Dockerfile");
  const std::string stage = docker.substr(docker.rfind("\nFROM "));
  const std::set<std::string> installed = words_of(between(stage, "--no-install-recommends \\", "&&"));
  for (const char* package : {"libcurl4", "libssl3", "libsqlite3-0", "libedit2", "libpcre2-8-0", "libutf8proc2",
                              "libspdlog1.10", "libtomlplusplus3", "ca-certificates"}) {
    EXPECT_TRUE(installed.contains(package)) << package;
  }
}

}  // namespace
}  // namespace ashlar
