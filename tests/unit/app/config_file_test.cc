// SPDX-License-Identifier: Apache-2.0
// Settings from flags, variables and a file, as `ashlar serve` takes them.
#include "app/command_line/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "app/serve/serve_options.h"
#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using testing::HasSubstr;
using Args = std::vector<std::string>;

class ConfigFile : public testing::Test {
 protected:
  ConfigFile() : path_((folder_ / "config.toml").string()) { clear(); }
  ~ConfigFile() override { clear(); }

  static void clear() {
    for (const char* name : {"ASHLAR_PORT", "ASHLAR_MODEL", "ASHLAR_CONFIG", "ASHLAR_THREADS", "ASHLAR_HOST"}) {
      ::unsetenv(name);
    }
  }
  void write(const std::string& text) { std::ofstream(path_) << text; }

  ServeOptions parse(Args args, bool with_file = true) {
    ServeOptions options;
    CLI::App app("", "serve");
    add_serve_flags(app, options);
    if (with_file) args.insert(args.begin(), "--config=" + path_);
    Args all = with_config_file(app, args);
    std::reverse(all.begin(), all.end());
    app.parse(all);
    settings_ = describe_settings(app, args);
    return options;
  }
  std::string error_of(const std::string& text) {
    write(text);
    try {
      parse({});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TempFolder folder_;
  std::string path_, settings_;
};

TEST_F(ConfigFile, AFlagWinsOverAVariableOverTheFileOverTheDefault) {
  EXPECT_EQ(parse({}, false).http.port, 8080);
  EXPECT_THAT(settings_, HasSubstr("port = 8080    # default"));
  write("port = 1001\n");
  EXPECT_EQ(parse({}).http.port, 1001);
  EXPECT_THAT(settings_, HasSubstr("port = 1001    # file"));
  ::setenv("ASHLAR_PORT", "1002", 1);
  EXPECT_EQ(parse({}).http.port, 1002);
  EXPECT_THAT(settings_, HasSubstr("port = 1002    # environment, ASHLAR_PORT"));
  for (const Args& args : {Args{"--port", "1003"}, Args{"--port=1003"}}) {
    EXPECT_EQ(parse(args).http.port, 1003);
    EXPECT_THAT(settings_, HasSubstr("port = 1003    # command line"));
  }
}

TEST_F(ConfigFile, AnEmptyVariableSetsNothing) {
  write("port = 1001\nmodel = \"m\"\n");
  ::setenv("ASHLAR_PORT", "", 1);
  ::setenv("ASHLAR_MODEL", "", 1);
  const ServeOptions options = parse({});
  EXPECT_EQ(options.http.port, 1001);
  EXPECT_EQ(options.session.model, "m");
}

TEST_F(ConfigFile, AVariableNamesTheFile) {
  write("port = 1001\n");
  ::setenv("ASHLAR_CONFIG", path_.c_str(), 1);
  EXPECT_EQ(parse({}, false).http.port, 1001);
}

TEST_F(ConfigFile, TheModelIsTheOneSettingWithoutAFlag) {
  write("model = \"from file\"\n");
  EXPECT_EQ(parse({}).session.model, "from file");
  // Values of flags are no models.
  EXPECT_EQ(parse({"--port", "1", "--config", path_}, false).session.model, "from file");
  EXPECT_EQ(parse({"--no-self-test", "typed"}).session.model, "typed");
  EXPECT_THAT(settings_, HasSubstr("model = \"typed\"    # command line"));
  EXPECT_EQ(parse({"--", "typed"}).session.model, "typed");
  ::setenv("ASHLAR_MODEL", "variable", 1);
  EXPECT_EQ(parse({}).session.model, "variable");
}

TEST_F(ConfigFile, TakesListsSwitchesAndNumbers) {
  write(
      "alias = [\"a\", \"b\"]\nallowed-origin = \"https://x\"\nno-prefix-cache = true\nno-self-test = false\n"
      "timeout = 0.1\nkv-memory = \"64M\"\nmax-waiting-tokens = 4096\nkv-dtype = \"f32\"\n");
  const ServeOptions options = parse({});
  EXPECT_EQ(options.aliases, (Args{"a", "b"}));
  EXPECT_EQ(options.guard.origins, Args{"https://x"});
  EXPECT_FALSE(options.session.engine.prefix_cache);
  EXPECT_TRUE(options.session.self_test);
  EXPECT_EQ(options.timeout_s, 0.1);
  EXPECT_EQ(options.session.engine.kv_bytes, 64 << 20);
  EXPECT_EQ(options.service.max_waiting_tokens, 4096);
  EXPECT_EQ(options.session.device_options.kv_dtype, KvDType::kF32);
  EXPECT_THAT(settings_, HasSubstr("no-prefix-cache = true    # file"));
  EXPECT_THAT(settings_, HasSubstr("no-self-test = false    # file"));
  EXPECT_THAT(settings_, HasSubstr("timeout = 0.1    # file"));
  EXPECT_EQ(parse({"--alias", "c"}).aliases, Args{"c"});  // replaced, not added to
}

TEST_F(ConfigFile, KeysAreNotShown) {
  write("api-key = [\"secret-one\", \"secret-two\"]\n");
  EXPECT_EQ(parse({}).guard.api_keys.size(), 2U);
  EXPECT_THAT(settings_, HasSubstr("api-key = (hidden)    # file"));
  EXPECT_THAT(settings_, testing::Not(HasSubstr("secret")));
}

TEST_F(ConfigFile, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(error_of("port = 1\nprot = 2\n"), HasSubstr(path_ + ":2: \"prot\" is no setting"));
  EXPECT_THAT(error_of("\nport = \"many\"\n"), HasSubstr(path_ + ":2: \"port\""));
  EXPECT_THAT(error_of("port = true\n"), HasSubstr("not true or false"));
  EXPECT_THAT(error_of("port = 70000\n"), HasSubstr("70000"));
  EXPECT_THAT(error_of("no-self-test = \"yes\"\n"), HasSubstr("expected true or false"));
  EXPECT_THAT(error_of("port = [1, 2]\n"), HasSubstr("is a list"));
  EXPECT_THAT(error_of("alias = [[\"a\"]]\n"), HasSubstr("nor a list of these"));
  EXPECT_THAT(error_of("timeout = 1979-05-27\n"), HasSubstr("neither text"));
  EXPECT_THAT(error_of("log-format = \"xml\"\n"), HasSubstr("log-format"));
  EXPECT_THAT(error_of("api-key = \"\"\n"), HasSubstr("visible"));
  EXPECT_THAT(error_of("model = 5\n"), HasSubstr("\"model\""));
  EXPECT_THAT(error_of("[server]\nport = 1\n"), HasSubstr("\"server\" is no setting"));
  for (const char* key : {"config", "help", "print-config"}) {
    EXPECT_THAT(error_of(std::string(key) + " = \"x\"\n"),
                HasSubstr(path_ + ":1: \"" + key + "\" cannot stand in a file of settings"));
  }
  EXPECT_THAT(error_of("confg = \"x\"\n"), testing::Not(HasSubstr("did you mean config")));
  EXPECT_THAT(error_of("port = \n"), HasSubstr(path_ + ":1: "));
  EXPECT_THAT(error_of("port = 1\nport = 2\n"), HasSubstr(path_ + ":2: "));
  std::filesystem::remove(path_);
  EXPECT_THROW(parse({}), Error);
}

TEST_F(ConfigFile, ATypeThatIsWrongIsNamed) {
  EXPECT_THAT(error_of("port = \"8080\"\n"), HasSubstr("\"port\" is \"8080\", a text; expected a number"));
  EXPECT_THAT(error_of("host = 127\n"), HasSubstr("\"host\" is 127; expected text in quotes"));
  EXPECT_THAT(error_of("width = 16.5\n"), HasSubstr("\"width\" is 16.5; expected a whole number from 2 to 64"));
  EXPECT_THAT(error_of("drain = nan\n"), HasSubstr("\"drain\" is nan; expected a number from 0 to 100000"));
  EXPECT_THAT(error_of("kv-dtype = \"f8\"\n"), HasSubstr("\"kv-dtype\" is f8; expected bf16, f32, int8 or tq4"));
  EXPECT_THAT(error_of("prot = 1\n"), HasSubstr("did you mean port?"));
  write("max-body-bytes = 1048576\nkv-memory = 67108864\n");  // sizes may be numbers
  EXPECT_EQ(parse({}).http.max_body_bytes, size_t{1} << 20);
}

TEST_F(ConfigFile, NoKeyIsNotAnOpenServer) {
  EXPECT_THAT(error_of("api-key = []\n"), HasSubstr("empty list"));
  path_ = folder_.path();
  try {
    parse({});
    ADD_FAILURE() << "a folder is no file of settings";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is a folder; expected a TOML file"));
  }
}

TEST_F(ConfigFile, WhatIsPrintedIsAFileOfSettingsAgain) {
  ::setenv("ASHLAR_THREADS", "3", 1);
  const Args args = {"a \"model\"",    "--port=99",   "--alias", "x",         "--alias",        "y",
                     "--kv-dtype=f32", "--drain=1.5", "--name",  "tab\there", "--no-self-test", "--kv-memory=64M"};
  const ServeOptions first = parse(args, false);
  const std::string printed = settings_;
  EXPECT_THAT(printed, HasSubstr("alias = [\"x\", \"y\"]    # command line"));
  EXPECT_THAT(printed, HasSubstr("threads = 3    # environment, ASHLAR_THREADS"));
  EXPECT_THAT(printed, HasSubstr("# tls-cert = "));
  EXPECT_THAT(printed, HasSubstr("max-body-bytes = 33554432    # default"));
  ::unsetenv("ASHLAR_THREADS");
  write(printed);
  const ServeOptions second = parse({});
  EXPECT_EQ(second.session.model, "a \"model\"");
  EXPECT_EQ(second.http.port, 99);
  EXPECT_EQ(second.aliases, first.aliases);
  EXPECT_EQ(second.name, "tab\there");
  EXPECT_EQ(second.drain_s, 1.5);
  EXPECT_FALSE(second.session.self_test);
  EXPECT_EQ(second.session.device_options.threads, 3);
  EXPECT_EQ(second.session.device_options.kv_dtype, KvDType::kF32);
  EXPECT_EQ(second.session.engine.kv_bytes, 64 << 20);
}

TEST_F(ConfigFile, AnEmptyKeyIsRefusedEverywhere) {
  EXPECT_THROW(parse({"--api-key", ""}, false), CLI::ParseError);
  EXPECT_THROW(parse({"--api-key=two words"}, false), CLI::ParseError);
}

TEST_F(ConfigFile, GivenArgumentsAreACommandLineAgain) {
  ServeOptions first, second;
  CLI::App app("", "serve"), other("", "serve");
  add_serve_flags(app, first);
  add_serve_flags(other, second);
  ::setenv("ASHLAR_HOST", "h", 1);
  app.parse("folder --port 5 --no-self-test --alias a --alias b --no-prefix-cache=false", false);
  ::unsetenv("ASHLAR_HOST");
  Args args = given_arguments(app, other);
  std::reverse(args.begin(), args.end());
  other.parse(args);
  EXPECT_EQ(second.session.model, "folder");
  EXPECT_EQ(second.http.port, 5);
  EXPECT_EQ(second.http.host, "h");
  EXPECT_FALSE(second.session.self_test);
  EXPECT_TRUE(second.session.engine.prefix_cache);
  EXPECT_EQ(second.aliases, (Args{"a", "b"}));
}

}  // namespace
}  // namespace ashlar
