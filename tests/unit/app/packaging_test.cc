// The files of packaging/ against what the program knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "app/config_file.h"
#include "app/serve_options.h"
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

}  // namespace
}  // namespace ashlar
